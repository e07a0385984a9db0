"""What may be concluded: aggregates over tasks, probabilities of improvement, paired differences, seeds needed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from pamd.report.aggregate import Cell, Column, Comparison, Setting
from pamd.report.results import NONE, interval
from pamd.report.statistics import (
    Scores,
    estimate,
    iqm,
    optimality_gap,
    paired_difference,
    probability_of_improvement,
    seeds_needed,
)
from pamd.report.table import Table

__all__ = ["aggregates", "common", "differences", "improvement", "pairs"]


def common(comparison: Comparison, scale: str, columns: Sequence[Column]) -> list[Setting]:
    """The settings of a scale in which each of `columns` has a score; none where a task would count twice."""
    settings = [setting for setting in comparison.settings if setting.scale == scale]
    both = [s for s in settings if columns and all(_scored(comparison, s, column) for column in columns)]
    return both if len({setting.name for setting in both}) == len(both) else []


def scored_columns(comparison: Comparison, scale: str) -> list[Column]:
    """The columns with a score at a scale."""
    settings = [setting for setting in comparison.settings if setting.scale == scale]
    return [column for column in comparison.columns if any(_scored(comparison, s, column) for s in settings)]


def normalised(comparison: Comparison, settings: Sequence[Setting], column: Column) -> Scores | None:
    """Scores as shares of the highest return, [tasks][seeds]; None where a task's highest return is not known."""
    if any(setting.best is None for setting in settings):
        return None
    return [comparison.cells[s, column].array / s.best for s in settings if s.best is not None]


def aggregates(comparison: Comparison, scale: str, rng: np.random.Generator) -> Table | None:
    """Over the tasks that all methods share, in units of the highest return; None where there are none."""
    columns = scored_columns(comparison, scale)
    settings = common(comparison, scale, columns)
    rows = []
    for column in columns if settings else []:
        scores = normalised(comparison, settings, column)
        if scores is None:
            return None
        found, gap = estimate(iqm, scores, rng=rng), estimate(optimality_gap, scores, rng=rng)
        runs = sum(len(task) for task in scores)
        rows.append([column.label, str(len(scores)), str(runs), interval(found, 3), interval(gap, 3)])
    if not rows:
        return None
    tasks = ", ".join(setting.name for setting in settings)
    notes = [
        f"Over {tasks}, each at its own budget. Returns are divided by 1000, the highest of a DMControl task."
        " Intervals: 95 %, bootstrap of runs within each task; none where a task has a single run."
        " Optimality gap: how far runs fall short of 1 on average; less is better."
    ]
    heads = ["method", "tasks", "runs", "IQM", "optimality gap"]
    return Table(f"aggregates-{scale}", f"All shared tasks together, {scale} scale", heads, rows, notes)


def pairs(columns: Sequence[Column]) -> list[tuple[Column, Column]]:
    """Every two columns; a plug-in comes before what it is plugged into, and such pairs come first."""
    ordered = [(b, a) if b.method.startswith(f"{a.method}+") else (a, b) for a, b in itertools.combinations(columns, 2)]
    return sorted(ordered, key=lambda pair: not pair[0].method.startswith(f"{pair[1].method}+"))


def improvement(comparison: Comparison, scale: str, rng: np.random.Generator) -> Table | None:
    """How likely a run of one method beats a run of the other, averaged over their shared tasks."""
    rows = []
    for x, y in pairs(scored_columns(comparison, scale)):
        settings = common(comparison, scale, [x, y])
        if not settings:
            continue
        a, b = ([comparison.cells[setting, column].array for setting in settings] for column in (x, y))
        found = estimate(probability_of_improvement, a, b, rng=rng)
        runs = f"{sum(map(len, a))} and {sum(map(len, b))}"
        rows.append([f"{x.label} > {y.label}", ", ".join(s.name for s in settings), runs, interval(found, 2)])
    if not rows:
        return None
    notes = [
        "One half: neither is better. An interval that reaches from below 0.5 to above it leaves the question open;"
        " a few seeds that all agree give an interval too narrow to trust."
    ]
    columns = ["pair", "tasks", "runs", "probability [95 %]"]
    return Table(f"improvement-{scale}", f"Probability of improvement, {scale} scale", columns, rows, notes, numbers=2)


def differences(comparison: Comparison, scale: str) -> Table | None:
    """Differences between runs of one seed, setting by setting, and the seeds that such a difference would need."""
    rows = []
    for x, y in pairs(scored_columns(comparison, scale)):
        for setting in comparison.settings:
            one, other = comparison.cells.get((setting, x)), comparison.cells.get((setting, y))
            if setting.scale == scale and one and other and (row := _difference(one, other)):
                rows.append(row)
    if not rows:
        return None
    notes = [
        "Evaluation episodes are the same for every method with the same seed, so seeds are compared pair by pair."
        " Intervals: 95 %, Student's t. Seeds needed: for a two-sided test at 5 % to find such a difference with"
        " probability 0.8, if effect and spread are as observed; a guess as rough as the spread of so few seeds."
    ]
    columns = ["pair", "setting", "paired seeds", "difference in return [95 %]", "seeds needed"]
    return Table(f"differences-{scale}", f"Paired differences, {scale} scale", columns, rows, notes, numbers=2)


def _difference(one: Cell, other: Cell) -> list[str] | None:
    seeds = sorted(one.scores.keys() & other.scores.keys())
    if not seeds:
        return None
    a, b = (np.array([cell.scores[seed] for seed in seeds]) for cell in (one, other))
    needed = seeds_needed(a - b)
    label = f"{one.column.label} minus {other.column.label}"
    return [label, one.setting.label, str(len(seeds)), interval(paired_difference(a, b)), str(needed or NONE)]


def _scored(comparison: Comparison, setting: Setting, column: Column) -> bool:
    cell = comparison.cells.get((setting, column))
    return cell is not None and bool(cell.scores)
