"""Runs in, comparable numbers out: what may stand in one row, what in one column, and curves on a common grid.

A row is a `Setting`: a task with all that surrounds the agent (action repeat, background, scale, replay, budget).
A column is one method's whole record, its fidelity included. Runs that differ in more than the seed share no cell.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.errors import RunError
from pamd.report.differences import canonical, differing, labelled
from pamd.report.load import Curve, Run
from pamd.report.statistics import mean_and_error

__all__ = ["Cell", "Column", "Comparison", "MeanCurve", "Setting", "align", "compare", "mean_curve"]


@dataclass(frozen=True)
class Setting:
    """What methods are compared on."""

    label: str
    task: str
    decisions: int
    action_repeat: int
    """0 where no run has said: it was left to the task, and none got to its first evaluation."""
    scale: str
    background: str
    """The name of what is behind the task; "" where it is the task's own."""
    video: bool
    """Whether that is clips, as in the paper."""
    best: float | None
    """The highest return there is: 1000 in the DMControl suite; None where it is not known."""
    detail: str = ""
    """What tells it from another setting of the same task, budget and scale."""

    @property
    def name(self) -> str:
        """The task and what is behind it: with another background it is another task."""
        return f"{self.task} + {self.background}" if self.background else self.task

    @property
    def frames(self) -> int:
        return self.decisions * self.action_repeat


@dataclass(frozen=True)
class Column:
    """One method, at one fidelity, with one set of options."""

    label: str
    method: str
    fidelity: str


@dataclass(frozen=True)
class Cell:
    """The runs of one method in one setting, by seed."""

    setting: Setting
    column: Column
    runs: tuple[Run, ...]
    missing: tuple[int, ...]
    """Seeds that another method ran in this setting and this one did not."""

    @property
    def scores(self) -> dict[int, float]:
        """The score of each seed that finished."""
        return {run.seed: run.score for run in self.runs if run.finished}

    @property
    def array(self) -> NDArray[np.float64]:
        """The scores, [seeds]."""
        return np.array(list(self.scores.values()), dtype=np.float64)

    @property
    def lacking(self) -> list[str]:
        """The seeds without a score, and why."""
        words = [
            f"seed {run.seed} {_state(run)} at {max(run.evaluated, 0):,} of {run.budget:,} decisions"
            for run in self.runs
            if not run.finished
        ]
        return words + [f"seed {seed} missing" for seed in self.missing]


@dataclass(frozen=True)
class Comparison:
    """All cells that have a run, by setting and column."""

    settings: tuple[Setting, ...]
    columns: tuple[Column, ...]
    cells: Mapping[tuple[Setting, Column], Cell]

    def row(self, setting: Setting) -> list[Cell]:
        return [self.cells[setting, column] for column in self.columns if (setting, column) in self.cells]

    @property
    def scales(self) -> list[str]:
        return sorted({setting.scale for setting in self.settings})


@dataclass(frozen=True)
class MeanCurve:
    """The mean over seeds at G points; `error` is NaN for a single seed, `seconds` NaN where a run has no timing."""

    decisions: NDArray[np.int64]
    frames: NDArray[np.float64]
    updates: NDArray[np.float64]
    seconds: NDArray[np.float64]
    mean: NDArray[np.float64]
    error: NDArray[np.float64]
    seeds: NDArray[np.int64]


def compare(runs: Sequence[Run], groups: Mapping[str, Sequence[Path]] | None = None) -> Comparison:
    """Runs in rows and columns. `groups` names columns by hand: each must hold one method record and one scale."""
    if not runs:
        raise RunError("there is no run to report on")
    settings, columns = _settings(runs), _columns(runs, groups or {})
    members: dict[tuple[Setting, Column], list[Run]] = {}
    for run, setting, column in zip(runs, settings, columns, strict=True):
        members.setdefault((setting, column), []).append(run)
    cells = {}
    for (setting, column), inside in members.items():
        inside.sort(key=lambda run: run.seed)
        for one, other in itertools.pairwise(inside):
            if one.seed == other.seed:
                what = ", ".join(differing([one.config, other.config])) or "nothing"
                raise RunError(
                    f"{one.path} and {other.path} are both seed {one.seed} of {column.label} on {setting.label}"
                    f" (they differ in {what}): one seed must not count twice"
                )
        everywhere = {run.seed for (where, _), group in members.items() if where == setting for run in group}
        missing = tuple(sorted(everywhere - {run.seed for run in inside}))
        cells[setting, column] = Cell(setting, column, tuple(inside), missing)
    order = sorted(set(settings), key=lambda s: (s.scale, s.name, s.decisions, s.label))
    return Comparison(tuple(order), tuple(sorted(set(columns), key=lambda c: c.label)), cells)


def align(curve: Curve, grid: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mean return of the last evaluation at or before each grid point [G]; NaN before the first and after the last.

    A run says nothing about what it has not reached, so nothing is carried beyond its last evaluation.
    """
    if not curve.decisions:
        return np.full(len(grid), np.nan)
    steps = np.asarray(curve.decisions)
    means = np.array([np.mean(returns) for returns in curve.returns])
    index = np.searchsorted(steps, grid, side="right") - 1
    return np.where((index >= 0) & (grid <= steps[-1]), means[np.maximum(index, 0)], np.nan)


def mean_curve(runs: Sequence[Run]) -> MeanCurve:
    """Mean and standard error over seeds on the union of their evaluation steps; each point says how many seeds."""
    curves = [run.curve for run in runs if run.curve.decisions]
    grid = np.array(sorted({step for curve in curves for step in curve.decisions}), dtype=np.int64)
    values = np.array([align(curve, grid) for curve in curves]).reshape(len(curves), len(grid))
    there = np.isfinite(values)
    points = [mean_and_error(values[there[:, g], g]) for g in range(len(grid))]

    def unit(name: str) -> NDArray[np.float64]:
        """A unit at the grid points, interpolated within each run and averaged over the runs that are there."""
        lines = [_interpolated(curve, getattr(curve, name), grid) for curve in curves]
        return np.array(
            [np.mean([line[g] for line, t in zip(lines, there, strict=True) if t[g]]) for g in range(len(grid))]
        )

    return MeanCurve(
        decisions=grid,
        frames=unit("frames"),
        updates=unit("updates"),
        seconds=unit("seconds"),
        mean=np.array([mean for mean, _ in points]),
        error=np.array([math.nan if error is None else error for _, error in points]),
        seeds=there.sum(axis=0),
    )


def _action_repeats(runs: Sequence[Run]) -> list[int]:
    """As configured; where the config leaves it to the task, from the frames that runs of that environment counted."""
    counted: dict[str, int] = {}
    for run in runs:
        if run.evaluated > 0:
            # The last decision of an episode may take fewer frames: the mean lies below the repeat, by less than one.
            counted[canonical(run.config["env"])] = math.ceil(run.curve.frames[-1] / run.evaluated)
    return [run.config["env"].get("action_repeat") or counted.get(canonical(run.config["env"]), 0) for run in runs]


def _interpolated(curve: Curve, values: Sequence[float | None], grid: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.interp(grid, curve.decisions, [math.nan if value is None else value for value in values])


def _state(run: Run) -> str:
    return "unfinished" if run.state in ("", "finished") else run.state


def _settings(runs: Sequence[Run]) -> list[Setting]:
    facts: list[dict[str, Any]] = []
    for run, repeat in zip(runs, _action_repeats(runs), strict=True):
        # The family only says whose action repeat is the default, and that is resolved here.
        env = {key: value for key, value in run.config["env"].items() if key != "family"}
        facts.append(
            {
                **{f"env.{key}": value for key, value in env.items() if value is not None},
                "env.action_repeat": repeat,
                "scale": run.config["scale"],
                "decisions": run.budget,
                "replay.capacity": run.config.get("replay", {}).get("capacity"),
            }
        )
    behind = [fact.get("env.distractor") or {} for fact in facts]
    names = [
        f"{fact['env.task']}{' + ' + back.get('name', 'distractor') if back else ''},"
        f" {short(fact['decisions'])} decisions, {fact['scale']['name']} scale"
        for fact, back in zip(facts, behind, strict=True)
    ]
    labels = labelled(names, facts)
    return [
        Setting(
            label,
            fact["env.task"],
            fact["decisions"],
            fact["env.action_repeat"],
            fact["scale"]["name"],
            back.get("name", "distractor") if back else "",
            back.get("source") == "video",
            _best(fact),
            label.removeprefix(name).strip(" ()"),
        )
        for name, label, fact, back in zip(names, labels, facts, behind, strict=True)
    ]


def _best(fact: Mapping[str, Any]) -> float | None:
    suite = fact["env.task"] != "toy" and ":" not in fact["env.task"]
    return 1000.0 if suite and "env.time_limit" not in fact else None


def _columns(runs: Sequence[Run], groups: Mapping[str, Sequence[Path]]) -> list[Column]:
    named = {Path(path).resolve(): label for label, paths in groups.items() for path in paths}
    labels = [named.get(run.path.resolve()) for run in runs]
    for label in groups:
        inside = [run for run, own in zip(runs, labels, strict=True) if own == label]
        mixed = differing([{"method": run.config["method"], "scale": run.config["scale"]} for run in inside])
        if mixed:
            raise RunError(
                f"the column {label!r} would mix runs that differ in {', '.join(mixed)}:"
                f" {', '.join(run.path.name for run in inside)}"
            )
    records = [run.config["method"] for run in runs]
    fidelities: dict[str, set[str]] = {}
    for record in records:
        fidelities.setdefault(record["name"], set()).add(record["fidelity"])
    names = [r["name"] + (f" ({r['fidelity']})" if len(fidelities[r["name"]]) > 1 else "") for r in records]
    free = [i for i, label in enumerate(labels) if label is None]
    for i, label in zip(free, labelled([names[i] for i in free], [records[i] for i in free]), strict=True):
        labels[i] = label
    return [
        Column(str(label), record["name"], record["fidelity"]) for label, record in zip(labels, records, strict=True)
    ]


def short(count: float) -> str:
    """1000000 as 1M, 200000 as 200k, 1234 as 1,234."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if count >= unit and count % (unit / 100) == 0:
            return f"{count / unit:g}{name}"
    return f"{count:,.0f}"
