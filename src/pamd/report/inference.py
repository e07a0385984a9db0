"""Statistics over tasks and pairs: aggregates, probability of improvement, paired differences and required seeds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from pamd.report.aggregate import Cell, Comparison
from pamd.report.settings import Column, Setting
from pamd.report.statistics import (
    Scores,
    estimate,
    iqm,
    optimality_gap,
    paired_difference,
    probability_of_improvement,
    seeds_needed,
)
from pamd.report.text import file_name
from pamd.table import Table, Value

__all__ = ["aggregates", "common", "differences", "improvement", "pairs"]


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


def aggregates(comparison: Comparison, scale: str, rng: np.random.Generator) -> Table | None:
    """Return aggregates over the common tasks of all methods, normalized by the highest possible return.

    Returns None if there are no common tasks or the highest possible return of a task is unknown.
    """
    columns = scored_columns(comparison, scale)
    settings = common(comparison, scale, columns)
    rows: list[list[Value]] = []
    for column in columns if settings else []:
        scores = normalized(comparison, settings, column)
        if scores is None:
            return None
        found, gap = (estimate(statistic, scores, rng=rng, digits=3) for statistic in (iqm, optimality_gap))
        rows.append([column.label, len(scores), sum(len(task) for task in scores), found, gap])
    if not rows:
        return None
    tasks = ", ".join(setting.name for setting in settings)
    notes = [
        f"Over {tasks}, each at its own budget. Returns are divided by 1000, the highest return of a DMControl task."
        " Intervals: 95%, bootstrap of runs within each task; none if a task has a single run."
        " Optimality gap: mean distance of a run from 1; lower is better."
    ]
    heads = ["method", "tasks", "runs", "IQM", "optimality gap"]
    return Table(file_name(f"aggregates-{scale}"), f"All shared tasks together, {scale} scale", heads, rows, notes)


def pairs(columns: Sequence[Column]) -> list[tuple[Column, Column]]:
    """Return all pairs of columns. Pairs of a plug-in and its baseline come first, and start with the plug-in."""
    ordered = [(b, a) if b.method.startswith(f"{a.method}+") else (a, b) for a, b in itertools.combinations(columns, 2)]
    return sorted(ordered, key=lambda pair: not pair[0].method.startswith(f"{pair[1].method}+"))


def improvement(comparison: Comparison, scale: str, rng: np.random.Generator) -> Table | None:
    """Return the probability that a run of one method beats a run of another, averaged over their common tasks."""
    rows: list[list[Value]] = []
    for x, y in pairs(scored_columns(comparison, scale)):
        settings = common(comparison, scale, [x, y])
        if not settings:
            continue
        a, b = ([comparison.cells[setting, column].array for setting in settings] for column in (x, y))
        repeated = any(len(task) > 1 for task in (*a, *b))
        found = estimate(probability_of_improvement, a, b, rng=rng, digits=2) if repeated else None
        runs = f"{sum(map(len, a))} and {sum(map(len, b))}"
        rows.append([f"{x.label} > {y.label}", ", ".join(s.name for s in settings), runs, found])
    if not rows:
        return None
    notes = [
        "Probability that a run of the first method scores higher than a run of the second; 0.5: neither is better."
        " Intervals: 95%, bootstrap of runs within each task. An interval that contains 0.5 is inconclusive."
        " Single runs have no probability. If a few"
        " seeds all agree, the interval is too narrow."
    ]
    columns = ["pair", "tasks", "runs", "probability"]
    return Table(file_name(f"improvement-{scale}"), f"Probability of improvement, {scale} scale", columns, rows, notes)


def differences(comparison: Comparison, scale: str) -> Table | None:
    """Return the differences paired by seed for each setting, and the number of seeds needed to detect them."""
    rows = []
    for x, y in pairs(scored_columns(comparison, scale)):
        for setting in comparison.settings:
            one, other = comparison.cells.get((setting, x)), comparison.cells.get((setting, y))
            if setting.scale == scale and one and other and (row := _difference(one, other)):
                rows.append(row)
    if not rows:
        return None
    notes = [
        "Methods with the same seed play the same evaluation episodes, so their returns are compared seed by seed."
        " Intervals: 95%, Student's t. Seeds needed: how many paired seeds a two-sided test at 5% needs to find the"
        " observed difference with probability 0.8. With few seeds, this is a rough estimate."
    ]
    columns = ["pair", "setting", "paired seeds", "difference in return", "seeds needed"]
    return Table(file_name(f"differences-{scale}"), f"Paired differences, {scale} scale", columns, rows, notes)


def _difference(one: Cell, other: Cell) -> list[Value] | None:
    seeds = sorted(one.scores.keys() & other.scores.keys())
    if not seeds:
        return None
    a, b = (np.array([cell.scores[seed] for seed in seeds]) for cell in (one, other))
    label = f"{one.column.label} minus {other.column.label}"
    return [label, one.setting.label, len(seeds), paired_difference(a, b), seeds_needed(a - b)]


def _scored(comparison: Comparison, setting: Setting, column: Column) -> bool:
    cell = comparison.cells.get((setting, column))
    return cell is not None and bool(cell.scores)
