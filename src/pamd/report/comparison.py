"""Group runs into cells, which the page, its tables, results.json and the experiments use.

A row is a `Setting`, and a column is a method with all of its options. Runs in one cell differ only in their seed. Only
finished seeds have a score. The others are listed.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.errors import RunError
from pamd.report.config import canonical, column_record, setting_record, task_name
from pamd.report.run import Loaded, Run
from pamd.report.statistics import Estimate, Mean, Scores, success_rate
from pamd.runs import Unreadable
from pamd.schema import flatten

_SHOWN = 3
_MANY = 200
"""The maximum number of runs that a page shows one by one."""


def _differing(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the dotted keys whose values differ between records."""
    flat = [_flat(record) for record in records]
    keys = dict.fromkeys(key for one in flat for key in one)
    return [key for key in keys if len({one.get(key) for one in flat}) > 1]


def _make_labels(names: Sequence[str], records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a label for each record: its name and its differences from other records with that name.

    Keys are written as in `--set`.
    """
    # The seeds of a method have the same record.
    texts = [(name, canonical(record)) for name, record in zip(names, records, strict=True)]
    flat = {text: _flat(record) for text, record in dict(zip(texts, records, strict=True)).items()}
    by_name: dict[str, list[dict[str, str]]] = {}
    for (name, _), one in flat.items():
        by_name.setdefault(name, []).append(one)
    keys = {name: _telling(group) for name, group in by_name.items()}
    labels = {}
    for (name, text), one in flat.items():
        shown, more = keys[name]
        words = [f"{key.replace('.options.', '.')}={one.get(key, '-')}" for key in shown]
        words += [f"and {more} more"] if more else []
        labels[name, text] = f"{name} ({', '.join(words)})" if words else name
    return [labels[text] for text in texts]


def _telling(group: Sequence[dict[str, str]]) -> tuple[list[str], int]:
    """Return the keys that tell the flat records of a group apart, changed parts first, and the number of other keys.

    If the name of a part differs, its options differ as well. They are listed only if they differ for the same name.
    """
    differing = [key for key in dict.fromkeys(key for one in group for key in one) if _values(group, key) > 1]
    names = [key for key in differing if key.endswith(".name")]
    keys = list(names)
    for key in differing:
        part = next((name for name in names if key != name and key.startswith(name.removesuffix("name"))), None)
        same_name: dict[str | None, list[dict[str, str]]] = {}
        for one in group:
            same_name.setdefault(one.get(part) if part else None, []).append(one)
        if key not in names and any(_values(members, key) > 1 for members in same_name.values()):
            keys.append(key)
    shown, variants = keys[:_SHOWN], len({canonical(one) for one in group})
    for key in keys[_SHOWN:]:
        if len({tuple(one.get(name) for name in shown) for one in group}) == variants:
            break
        if len({tuple(one.get(name) for name in (*shown, key)) for one in group}) > len(
            {tuple(one.get(name) for name in shown) for one in group}
        ):
            shown.append(key)
    return shown, len(keys) - len(shown)


def _values(group: Sequence[Mapping[str, str]], key: str) -> int:
    return len({one.get(key) for one in group})


def _flat(record: Mapping[str, Any]) -> dict[str, str]:
    """Flatten a record to text: {"a": {"b": 1}} becomes {"a.b": "1"}."""
    leaves = flatten(record)
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in leaves.items()}


@dataclass(frozen=True)
class Setting:
    """A row: a task with its environment settings, budget and scale."""

    label: str
    task: str
    decisions: int
    action_repeat: int
    """0 if unknown, which is possible for a run of the first layout that was never evaluated."""
    scale: str
    name: str
    """The task and its background or noise. A different background or noise is a different task."""
    background: str
    """The name of the background or the noise; "" for the task's own background without noise."""
    noise: bool
    """Whether noise is added to the states."""
    video: bool
    """Whether the background shows videos, as in the paper."""
    best: float | None
    """The highest possible return, 1000 for DMControl; None if unknown."""
    detail: str = ""
    """The difference from other settings with the same task, budget and scale."""

    @property
    def full_name(self) -> str:
        """The name and the differences from similar settings."""
        return f"{self.name} ({self.detail})" if self.detail else self.name

    @property
    def frames(self) -> int:
        return self.decisions * self.action_repeat


@dataclass(frozen=True)
class Column:
    """One method at one fidelity, with one learner and one set of options."""

    label: str
    method: str
    """The display name of the method."""
    fidelity: str


def _settings_of(runs: Sequence[Run]) -> list[Setting]:
    """Return the setting of each run. Different settings have different labels."""
    facts = [setting_record(run.config) for run in runs]
    tasks = [task_name(run.config) for run in runs]
    names = [
        f"{task}, {short(fact['decisions'])} decisions, {fact['scale']} scale"
        for task, fact in zip(tasks, facts, strict=True)
    ]
    labels = _make_labels(names, facts)
    return [
        Setting(
            label=label,
            task=fact["env.task"],
            decisions=fact["decisions"],
            action_repeat=fact["env.action_repeat"],
            scale=fact["scale"],
            name=task,
            background=(fact.get("env.distractor") or fact.get("env.noise") or {}).get("name", ""),
            noise=not fact.get("env.distractor") and bool(fact.get("env.noise")),
            video=(fact.get("env.distractor") or {}).get("source") == "video",
            best=_best(fact),
            detail=label.removeprefix(name).strip(" ()"),
        )
        for task, name, label, fact in zip(tasks, names, labels, facts, strict=True)
    ]


def _columns_of(runs: Sequence[Run], groups: Mapping[str, Sequence[Path]]) -> list[Column]:
    """Return the column of each run. `groups` maps column labels to run directories."""
    records = [column_record(run.identity) for run in runs]
    labels = _labels_by_hand(runs, records, groups)
    unnamed = [index for index, label in enumerate(labels) if label is None]
    names = _names_with_fidelity(runs, records)
    # A scale changes many options of a method. It is part of the setting, so labels do not list these options.
    for scale in dict.fromkeys(runs[index].scale for index in unnamed):
        same = [index for index in unnamed if runs[index].scale == scale]
        found = _make_labels([names[index] for index in same], [records[index] for index in same])
        for index, label in zip(same, found, strict=True):
            labels[index] = label
    return [Column(str(label), run.curve.method, run.curve.fidelity) for label, run in zip(labels, runs, strict=True)]


def short(count: float) -> str:
    """Format 1000000 as 1M, 200000 as 200k and 1234 as 1,234."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if count >= unit and count % (unit / 100) == 0:
            return f"{count / unit:g}{name}"
    return f"{count:,.0f}"


def _best(fact: Mapping[str, Any]) -> float | None:
    task = fact["env.task"].removeprefix("state:")
    suite = task != "toy" and ":" not in task
    return 1000.0 if suite and not {"env.time_limit", "env.time_limit_cap"} & fact.keys() else None


def _labels_by_hand(
    runs: Sequence[Run], records: Sequence[Mapping[str, Any]], groups: Mapping[str, Sequence[Path]]
) -> list[str | None]:
    """Return the label of each run in `groups`. Raises RunError if a label would mix methods or scales."""
    named = {Path(path).resolve(): label for label, paths in groups.items() for path in paths}
    labels = [named.get(run.path.resolve()) for run in runs]
    for label in groups:
        inside = [index for index, own in enumerate(labels) if own == label]
        mixed = _differing([{**records[index], "scale": runs[index].scale} for index in inside])
        if mixed:
            raise RunError(
                f"the column {label!r} would mix runs that differ in {', '.join(mixed)}:"
                f" {', '.join(runs[index].name for index in inside)}"
            )
    return labels


def _names_with_fidelity(runs: Sequence[Run], records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the label or the method of each run, with the fidelity if runs with that name have several fidelities.

    A run without a label has that of a run with the same record.
    """
    labels = {canonical(record): run.label for run, record in zip(runs, records, strict=True) if run.label}
    names = [
        run.label or (labels and labels.get(canonical(record))) or run.curve.method
        for run, record in zip(runs, records, strict=True)
    ]
    fidelities: dict[str, set[str]] = {}
    for name, run in zip(names, runs, strict=True):
        fidelities.setdefault(name, set()).add(run.curve.fidelity)
    return [
        name + (f" ({run.curve.fidelity})" if len(fidelities[name]) > 1 else "")
        for name, run in zip(names, runs, strict=True)
    ]


@dataclass(frozen=True)
class Cell:
    """The runs of one method in one setting, ordered by seed."""

    setting: Setting
    column: Column
    runs: tuple[Run, ...]
    missing: tuple[int, ...]
    """Seeds that other methods have in this setting but this method does not."""

    @cached_property
    def finished(self) -> list[Run]:
        return [run for run in self.runs if run.finished]

    @cached_property
    def scores(self) -> dict[int, float]:
        """The score of each finished seed."""
        return {run.seed: run.score for run in self.finished}

    @cached_property
    def array(self) -> NDArray[np.float64]:
        """The scores, [seeds]."""
        return np.array(list(self.scores.values()), dtype=np.float64)

    @property
    def mean(self) -> Mean:
        """The mean return over the finished seeds."""
        return Mean.over(self.array)

    @property
    def success(self) -> Estimate | None:
        """The success rate over the last evaluations of all finished seeds; None if the task does not report it."""
        successes = [success for run in self.finished for success in run.curve.successes[-1]]
        return success_rate(successes) if successes else None

    @property
    def unseen_mean(self) -> Mean | None:
        """The mean return with unseen backgrounds or noise; None if no finished seed has one."""
        found = [run.unseen_score for run in self.finished if run.unseen_score is not None]
        return Mean.over(found) if found else None

    @property
    def elsewhere(self) -> dict[str, dict[int, float]]:
        """background -> the score of each finished seed on it (`--evaluate-on`)."""
        names = dict.fromkeys(name for run in self.finished for name in run.elsewhere_scores)
        scores = {run.seed: run.elsewhere_scores for run in self.finished}
        return {name: {seed: own[name] for seed, own in scores.items() if name in own} for name in names}

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
    def many(self) -> bool:
        """Whether a page shows summaries of the runs in place of single runs, so that it stays small."""
        return len(self.runs) > _MANY

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
    return _arrange(runs, _settings_of(runs), _columns_of(runs, groups or {}))


def _arrange(runs: Sequence[Run], settings: Sequence[Setting], columns: Sequence[Column]) -> Comparison:
    """Arrange runs in the given rows and columns, one of each per run."""
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


def compare_readable(loaded: Loaded, groups: Mapping[str, Sequence[Path]] | None = None) -> Comparison:
    """Compare runs. Runs that cannot be read or that repeat a seed are listed. Raises RunError if no run remains."""
    if loaded.unreadable and not loaded.runs:
        raise RunError("no run can be read: " + "; ".join(one.reason for one in loaded.unreadable))
    runs, unreadable = [], list(loaded.unreadable)
    settings, columns = _settings_of(loaded.runs), _columns_of(loaded.runs, groups or {})
    seen: dict[tuple[Setting, Column, int], Run] = {}
    for run, setting, column in zip(loaded.runs, settings, columns, strict=True):
        first = seen.setdefault((setting, column, run.seed), run)
        if first is run:
            runs.append(run)
        else:
            unreadable.append(Unreadable(run.path, _same_seed(first, run, f"{column.label} on {setting.label}")))
    # Labels state differences between runs, so they may be shorter without the excluded runs.
    whole = len(runs) == len(loaded.runs) > 0
    comparison = _arrange(runs, settings, columns) if whole else compare(runs, groups)
    return dataclasses.replace(comparison, unreadable=tuple(unreadable))


def _check_seeds(runs: Sequence[Run], cell: str) -> None:
    """Raise RunError if two of the runs, which are sorted by seed, have the same seed."""
    for one, other in itertools.pairwise(runs):
        if one.seed == other.seed:
            raise RunError(_same_seed(one, other, cell))


def _same_seed(one: Run, other: Run, cell: str) -> str:
    what = ", ".join(_differing([one.config, other.config])) or "nothing"
    return (
        f"{one.path} and {other.path} are both seed {one.seed} of {cell}"
        f" (they differ in {what}): one seed must not count twice"
    )


def of_success(comparison: Comparison) -> Comparison | None:
    """Return the comparison with successes in place of returns; None if no task reports success."""
    cells = {}
    for key, cell in comparison.cells.items():
        runs = [run for run in cell.runs if run.curve.decisions and all(run.curve.successes)]
        rates = [dataclasses.replace(run.curve, returns=list(map(_numbers, run.curve.successes))) for run in runs]
        if runs:
            own = (dataclasses.replace(run, curve=curve) for run, curve in zip(runs, rates, strict=True))
            cells[key] = dataclasses.replace(cell, runs=tuple(own))
    settings = tuple(setting for setting in comparison.settings if any(setting == own for own, _ in cells))
    return dataclasses.replace(comparison, settings=settings, cells=cells) if cells else None


def _numbers(successes: Sequence[bool]) -> list[float]:
    return [float(success) for success in successes]


def common(comparison: Comparison, scale: str, columns: Sequence[Column]) -> list[Setting]:
    """Return the settings of a scale in which all `columns` have a score; empty if a task would be counted twice."""
    settings = [setting for setting in comparison.settings if setting.scale == scale]
    both = [s for s in settings if columns and all(_scored(comparison, s, column) for column in columns)]
    return both if len({setting.name for setting in both}) == len(both) else []


def scored_columns(comparison: Comparison, scale: str) -> list[Column]:
    """Return the columns that have a score at a scale."""
    settings = [setting for setting in comparison.settings if setting.scale == scale]
    return [column for column in comparison.columns if any(_scored(comparison, s, column) for s in settings)]


def normalized(comparison: Comparison, settings: Sequence[Setting], column: Column) -> Scores | None:
    """Return scores divided by the highest possible return, [tasks][seeds]; None if it is unknown for a task."""
    if any(setting.best is None for setting in settings):
        return None
    return [comparison.cells[s, column].array / s.best for s in settings if s.best is not None]


def pairs(columns: Sequence[Column]) -> list[tuple[Column, Column]]:
    """Return all pairs of columns. Pairs of a plug-in and its baseline come first, and start with the plug-in."""
    ordered = [(b, a) if b.method.startswith(f"{a.method}+") else (a, b) for a, b in itertools.combinations(columns, 2)]
    return sorted(ordered, key=lambda pair: not pair[0].method.startswith(f"{pair[1].method}+"))


def _scored(comparison: Comparison, setting: Setting, column: Column) -> bool:
    cell = comparison.cells.get((setting, column))
    return cell is not None and bool(cell.scores)
