"""Returns as tables, from the cells of a comparison: one row for each cell, or the paper's layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pamd.published import Published
from pamd.report import paper
from pamd.report.aggregate import Cell, Comparison
from pamd.report.settings import short
from pamd.report.statistics import Estimate, estimate, iqm
from pamd.report.text import file_name
from pamd.table import Quantity, Table, Value

__all__ = ["layout", "records", "summary"]


@dataclass(frozen=True)
class _Seeds(Quantity):
    """How many seeds have a score, of how many."""

    finished: int
    planned: int

    def __str__(self) -> str:
        return str(self.finished) if self.finished == self.planned else f"{self.finished} of {self.planned}"

    def parts(self) -> dict[str, float]:
        return {"": self.finished, "planned": self.planned}


def summary(comparison: Comparison, published: Sequence[Published], rng: np.random.Generator) -> Table:
    """Every cell: return, seeds, the budget in three units, and the paper's number for that task and method."""
    unseen = any(cell.unseen_mean for cell in comparison.rows)
    columns = ["task", "method", "return", "IQM", "seeds"]
    columns += ["return, unseen backgrounds"] if unseen else []
    columns += ["decisions", "frames", "updates", "fidelity", "scale"]
    columns += paper.COLUMNS if published else []
    rows: list[list[Value]] = []
    for cell in comparison.rows:
        seeds = _Seeds(len(cell.scores), cell.planned)
        row: list[Value] = [cell.setting.full_name, cell.column.label, cell.mean, _iqm(cell, rng), seeds]
        row += [cell.unseen_mean] if unseen else []
        row += [cell.setting.decisions, cell.counted("frames"), cell.counted("updates")]
        row += [cell.column.fidelity, cell.setting.scale]
        row += paper.beside(cell, published) if published else []
        rows.append(row)
    notes = [
        "Return: undiscounted, of the evaluation at the end of the budget; mean over the n finished seeds ± one"
        " standard error. IQM: mean of the middle half of the seeds, with a 95 % bootstrap interval, which is too"
        " narrow for few seeds. With one seed neither has an error.",
        *(f"{cell.notice}." for cell in comparison.rows if cell.notice),
    ]
    if comparison.unreadable:
        notes.append(f"Unreadable, and not counted: {', '.join(one.name for one in comparison.unreadable)}.")
    return Table("summary", "Every method in every setting", columns, rows, notes)


def layout(comparison: Comparison, scale: str) -> Table:
    """The paper's layout at one scale: a row for each task and budget, a column for each method."""
    settings = [setting for setting in comparison.settings if setting.scale == scale]
    columns = [c for c in comparison.columns if any((s, c) in comparison.cells for s in settings)]
    rows: list[list[Value]] = []
    for setting in settings:
        cells = [comparison.cells.get((setting, column)) for column in columns]
        task = f"{setting.name} ({short(setting.decisions)})" + (f", {setting.detail}" if setting.detail else "")
        rows.append([task, *(None if cell is None else cell.mean for cell in cells)])
    heads = [c.label if c.fidelity in c.label else f"{c.label} ({c.fidelity} fidelity)" for c in columns]
    notes = ["In brackets after a task: its budget in decisions. After a method: its fidelity. n: finished seeds."]
    return Table(file_name(f"returns-{scale}"), f"Returns at {scale} scale", ["task (decisions)", *heads], rows, notes)


def records(comparison: Comparison) -> list[dict[str, Any]]:
    """Every cell as a JSON object; `runs` holds the score of each run directory that counts."""
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


def _iqm(cell: Cell, rng: np.random.Generator) -> Estimate | None:
    return estimate(iqm, [cell.array], rng=rng) if cell.scores else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
