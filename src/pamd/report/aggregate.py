"""Group runs into cells, which the page, its tables, results.json and the experiments use.

A row is a `Setting`, and a column is a method with all of its options. Runs in one cell differ only in their seed. Only
finished seeds have a score. The others are listed.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pamd.errors import RunError
from pamd.report.differences import differing
from pamd.report.load import Found
from pamd.report.run import Run
from pamd.report.settings import Column, Setting, columns_of, settings_of
from pamd.report.statistics import Mean
from pamd.runs import Unreadable

__all__ = ["Cell", "Comparison", "compare", "compare_found"]


@dataclass(frozen=True)
class Cell:
    """The runs of one method in one setting, ordered by seed."""

    setting: Setting
    column: Column
    runs: tuple[Run, ...]
    missing: tuple[int, ...]
    """Seeds that other methods have in this setting but this method does not."""

    @property
    def finished(self) -> list[Run]:
        return [run for run in self.runs if run.finished]

    @property
    def scores(self) -> dict[int, float]:
        """The score of each finished seed."""
        return {run.seed: run.score for run in self.finished}

    @property
    def array(self) -> NDArray[np.float64]:
        """The scores, [seeds]."""
        return np.array(list(self.scores.values()), dtype=np.float64)

    @property
    def mean(self) -> Mean:
        """The mean return over the finished seeds."""
        return Mean.over(self.array)

    @property
    def unseen_mean(self) -> Mean | None:
        """The mean return with unseen backgrounds or noise; None if no finished seed has one."""
        found = [run.unseen_score for run in self.finished if run.unseen_score is not None]
        return Mean.over(found) if found else None

    @property
    def planned(self) -> int:
        """The number of finished, unfinished and missing seeds."""
        return len(self.runs) + len(self.missing)

    @property
    def not_counted(self) -> list[str]:
        """The seeds without a score, with the reasons."""
        unfinished = [f"seed {run.seed} {run.progress}" for run in self.runs if not run.finished]
        return unfinished + [f"seed {seed} missing" for seed in self.missing]

    @property
    def notice(self) -> str:
        """A notice about the seeds that are not counted; "" if all are counted."""
        words = "; ".join(self.not_counted)
        return words and f"{self.column.label} on {self.setting.label}: {words}"

    def counted(self, unit: str) -> int | None:
        """Return the largest final number of frames or updates of the finished runs; None if no run has finished."""
        return max((getattr(run.curve, unit)[-1] for run in self.finished), default=None)


@dataclass(frozen=True)
class Comparison:
    """All cells that have a run, by setting and column."""

    runs: tuple[Run, ...]
    settings: tuple[Setting, ...]
    columns: tuple[Column, ...]
    cells: Mapping[tuple[Setting, Column], Cell]
    unreadable: tuple[Unreadable, ...] = ()
    """Excluded directories, with the reasons."""

    def row(self, setting: Setting) -> list[Cell]:
        return [self.cells[setting, column] for column in self.columns if (setting, column) in self.cells]

    @property
    def rows(self) -> list[Cell]:
        """All cells, setting by setting."""
        return [cell for setting in self.settings for cell in self.row(setting)]

    @property
    def scales(self) -> list[str]:
        return sorted({setting.scale for setting in self.settings})


def compare(runs: Sequence[Run], groups: Mapping[str, Sequence[Path]] | None = None) -> Comparison:
    """Arrange runs in rows and columns.

    `groups` maps column labels to run directories. All runs of a label must have the same method record and scale.
    Raises RunError if they do not, if there are no runs, or if two runs of a cell have the same seed.
    """
    if not runs:
        raise RunError("there is no run to report on")
    settings, columns = settings_of(runs), columns_of(runs, groups or {})
    members: dict[tuple[Setting, Column], list[Run]] = {}
    seeds: dict[Setting, set[int]] = {}
    for run, setting, column in zip(runs, settings, columns, strict=True):
        members.setdefault((setting, column), []).append(run)
        seeds.setdefault(setting, set()).add(run.seed)
    cells = {}
    for (setting, column), inside in members.items():
        inside.sort(key=lambda run: run.seed)
        _check_seeds(inside, f"{column.label} on {setting.label}")
        missing = seeds[setting] - {run.seed for run in inside}
        cells[setting, column] = Cell(setting, column, tuple(inside), tuple(sorted(missing)))
    order = sorted(set(settings), key=lambda s: (s.scale, s.name, s.decisions, s.label))
    return Comparison(tuple(runs), tuple(order), tuple(sorted(set(columns), key=lambda c: c.label)), cells)


def compare_found(found: Found, groups: Mapping[str, Sequence[Path]] | None = None) -> Comparison:
    """Compare runs. Runs that cannot be read or that repeat a seed are listed. Raises RunError if no run remains."""
    if found.unreadable and not found.runs:
        raise RunError("no run can be read: " + "; ".join(one.reason for one in found.unreadable))
    runs, unreadable = [], list(found.unreadable)
    places = zip(settings_of(found.runs), columns_of(found.runs, groups or {}), strict=True)
    seen: dict[tuple[Setting, Column, int], Run] = {}
    for run, (setting, column) in zip(found.runs, places, strict=True):
        first = seen.setdefault((setting, column, run.seed), run)
        if first is run:
            runs.append(run)
        else:
            unreadable.append(Unreadable(run.path, _same_seed(first, run, f"{column.label} on {setting.label}")))
    return dataclasses.replace(compare(runs, groups), unreadable=tuple(unreadable))


def _check_seeds(runs: Sequence[Run], cell: str) -> None:
    """Raise RunError if two of the runs, which are sorted by seed, have the same seed."""
    for one, other in itertools.pairwise(runs):
        if one.seed == other.seed:
            raise RunError(_same_seed(one, other, cell))


def _same_seed(one: Run, other: Run, cell: str) -> str:
    what = ", ".join(differing([one.config, other.config])) or "nothing"
    return (
        f"{one.path} and {other.path} are both seed {one.seed} of {cell}"
        f" (they differ in {what}): one seed must not count twice"
    )
