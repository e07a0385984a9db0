"""Tables of returns: one row per cell, or a grid of tasks and methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pamd.report.aggregate import Cell, Comparison
from pamd.report.settings import short
from pamd.report.statistics import Estimate, estimate, iqm
from pamd.report.text import file_name
from pamd.table import Quantity, Table, Value

__all__ = ["layout", "records", "summary"]


_SIDE_BY_SIDE = 6
"""The maximum number of columns of means that fit on the page."""


@dataclass(frozen=True)
class _Seeds(Quantity):
    """The number of finished seeds and the number of all seeds."""

    finished: int
    planned: int

    def __str__(self) -> str:
        return str(self.finished) if self.finished == self.planned else f"{self.finished} of {self.planned}"

    def parts(self) -> dict[str, float]:
        return {"": self.finished, "planned": self.planned}


def summary(comparison: Comparison, rng: np.random.Generator) -> Table:
    """Return a table of all cells with the return, the seeds, and the budget in three units."""
    unseen = _unseen(comparison)
    columns = ["task", "method", "return", "IQM", "seeds"]
    columns += [f"return, unseen {unseen}"] if unseen else []
    columns += ["decisions", "frames", "updates", "fidelity", "scale"]
    rows: list[list[Value]] = []
    for cell in comparison.rows:
        seeds = _Seeds(len(cell.scores), cell.planned)
        row: list[Value] = [cell.setting.full_name, cell.column.label, cell.mean, _iqm(cell, rng), seeds]
        row += [cell.unseen_mean] if unseen else []
        row += [cell.setting.decisions, cell.counted("frames"), cell.counted("updates")]
        row += [cell.column.fidelity, cell.setting.scale]
        rows.append(row)
    notes = [
        "Return: undiscounted return of the evaluation at the end of the budget; mean over n finished seeds ± one"
        " standard error. IQM (interquartile mean): mean of the middle half of the seeds, with a 95% bootstrap"
        " interval, which is too narrow for few seeds. With one seed there is no standard error and no interval.",
        *(f"{cell.notice}." for cell in comparison.rows if cell.notice),
    ]
    if comparison.unreadable:
        notes.append(f"Unreadable and not counted: {', '.join(one.name for one in comparison.unreadable)}.")
    return Table("summary", "All results", columns, rows, notes)


def layout(comparison: Comparison, scale: str) -> Table:
    """Return a table of one scale, with tasks and budgets as rows and methods as columns, as in the paper.

    The table is transposed if the methods do not fit on the page and outnumber the tasks.
    """
    settings = [setting for setting in comparison.settings if setting.scale == scale]
    columns = [c for c in comparison.columns if any((s, c) in comparison.cells for s in settings)]
    tasks = [f"{s.name} ({short(s.decisions)})" + (f", {s.detail}" if s.detail else "") for s in settings]
    methods = [c.label if c.fidelity in c.label else f"{c.label} ({c.fidelity} fidelity)" for c in columns]
    cells = [[comparison.cells.get((setting, column)) for column in columns] for setting in settings]
    means: list[list[Value]] = [[None if cell is None else cell.mean for cell in row] for row in cells]
    corner, names, heads = "task (decisions)", tasks, methods
    if len(methods) > max(_SIDE_BY_SIDE, len(tasks)):
        corner, names, heads = "method", methods, tasks
        means = [list(column) for column in zip(*means, strict=True)]
    rows = [[name, *row] for name, row in zip(names, means, strict=True)]
    notes = ["In parentheses: the budget of a task in decisions, and the fidelity of a method. n: finished seeds."]
    return Table(file_name(f"returns-{scale}"), f"Returns at {scale} scale", [corner, *heads], rows, notes)


def records(comparison: Comparison) -> list[dict[str, Any]]:
    """Return all cells as JSON objects. `runs` maps the directory name of each counted run to its score."""
    return [
        {
            "task": cell.setting.full_name,
            "method": cell.column.label,
            "seeds": cell.mean.n,
            "return": _rounded(cell.mean.mean),
            "standard error": _rounded(cell.mean.error),
            "decisions": cell.setting.decisions,
            "frames": cell.counted("frames"),
            "updates": cell.counted("updates"),
            "runs": {run.name: _rounded(run.score) for run in cell.finished},
            "not counted": cell.not_counted,
        }
        for cell in comparison.rows
    ]


def _unseen(comparison: Comparison) -> str:
    """Return the unseen part of evaluations, backgrounds or noise or both; "" if there are no such evaluations."""
    noise = {cell.setting.noise for cell in comparison.rows if cell.unseen_mean}
    return " or ".join(name for name, is_noise in (("backgrounds", False), ("noise", True)) if is_noise in noise)


def _iqm(cell: Cell, rng: np.random.Generator) -> Estimate | None:
    return estimate(iqm, [cell.array], rng=rng) if cell.scores else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
