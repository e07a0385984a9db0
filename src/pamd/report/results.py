"""What runs returned, as tables: one row a cell with the paper's number beside it, and the paper's own layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pamd.published import Published
from pamd.report.aggregate import Cell, Comparison, short
from pamd.report.statistics import Estimate, estimate, iqm, mean_and_error
from pamd.report.table import Table

__all__ = ["interval", "layout", "matching", "published_table", "returned", "summary"]

NONE = "—"


def summary(comparison: Comparison, published: Sequence[Published], rng: np.random.Generator) -> Table:
    """Every cell: budget in three units, seeds, return, and what the paper has for that task and method."""
    columns = ["task", "method", "return, mean ± s.e.", "return, IQM [95 %]", "seeds"]
    unseen = any(_unseen(cell) for cell in comparison.cells.values())
    columns += ["return before unseen clips"] if unseen else []
    columns += ["decisions", "frames", "updates", "fidelity", "scale"]
    columns += ["paper", "same budget and scale?", "paper's budget", "paper's source"] if published else []
    rows = []
    for setting in comparison.settings:
        for cell in comparison.row(setting):
            task = f"{setting.name} ({setting.detail})" if setting.detail else setting.name
            row = [task, cell.column.label, returned(cell), _iqm(cell, rng), _seeds(cell)]
            row += [_mean(_unseen(cell))] if unseen else []
            row += [*_budget(cell), cell.column.fidelity, setting.scale]
            if published:
                row += _beside(cell, matching(cell, published))
            rows.append(row)
    notes = [
        "Return: undiscounted, of the evaluation at the end of the budget; mean over seeds ± one standard error."
        " IQM: mean of the middle half of the seeds, with a bootstrap interval, which is too narrow for few seeds."
        " With one seed neither has an error.",
        *(
            f"{cell.column.label} on {cell.setting.label}: {'; '.join(cell.lacking)}."
            for setting in comparison.settings
            for cell in comparison.row(setting)
            if cell.lacking
        ),
    ]
    return Table("summary", "Every method in every setting", columns, rows, notes, numbers=2)


def layout(comparison: Comparison, scale: str) -> Table:
    """The paper's layout at one scale: a row a task and its budget, a column a method."""
    settings = [setting for setting in comparison.settings if setting.scale == scale]
    columns = [c for c in comparison.columns if any((s, c) in comparison.cells for s in settings)]
    rows = []
    for setting in settings:
        cells = [comparison.cells.get((setting, column)) for column in columns]
        budget = f"{setting.name} ({short(setting.decisions)})" + (f", {setting.detail}" if setting.detail else "")
        rows.append([budget, *(NONE if cell is None else f"{returned(cell)} (n={len(cell.scores)})" for cell in cells)])
    heads = [c.label if c.fidelity in c.label else f"{c.label} ({c.fidelity} fidelity)" for c in columns]
    notes = ["In brackets after a task its budget in decisions, after a method its fidelity; n: seeds that finished."]
    return Table(f"returns-{scale}", f"Returns at {scale} scale", ["task (decisions)", *heads], rows, notes)


def published_table(published: Sequence[Published]) -> Table:
    """The paper's own numbers."""
    rows = []
    for row in published:
        background = " (video)" if row.video else ""
        seeds = NONE if row.seeds is None else str(row.seeds)
        words = [row.task + background, row.method, row.quantity, str(row), _published_budget(row), seeds]
        rows.append([*words, row.source + (f"; {row.note}" if row.note else "")])
    columns = ["task", "method", "quantity", "value", "budget", "seeds", "source"]
    notes = ["≈: read off a figure, so approximate. Where the paper prints no number there is none."]
    return Table("paper", "What the paper reports", columns, rows, notes, numbers=3)


def matching(cell: Cell, published: Sequence[Published]) -> list[Published]:
    """The paper's returns for the task, background and method of a cell."""
    names = {cell.column.label, cell.column.method}
    rows = [p for p in published if p.quantity == "return" and p.task == cell.setting.task]
    # Noise or a plain colour behind the task is neither what the paper has nor nothing.
    rows = [p for p in rows if p.method in names and (cell.setting.video if p.video else not cell.setting.background)]
    exact = [p for p in rows if p.method == cell.column.label]
    # Two tables of the paper may print the same number.
    return list({(p.mean, p.error, p.decisions): p for p in reversed(exact or rows)}.values())[::-1]


def returned(cell: Cell) -> str:
    """mean ± standard error of the seeds that finished."""
    return _mean(cell.array)


def _mean(values: Sequence[float] | NDArray[np.float64]) -> str:
    if not len(values):
        return NONE
    mean, error = mean_and_error(values)
    digits = _digits(mean, error)
    return _rounded(mean, digits) + ("" if error is None else f" ± {_rounded(error, digits)}")


def interval(found: Estimate, digits: int | None = None) -> str:
    """value [low, high]; without `digits`, as many as a return of that size needs."""
    digits = _digits(found.value, found.low, found.high) if digits is None else digits
    if found.low is None or found.high is None:
        return _rounded(found.value, digits)
    return f"{_rounded(found.value, digits)} [{_rounded(found.low, digits)}, {_rounded(found.high, digits)}]"


def _digits(*values: float | None) -> int:
    """Rewards may be small, and 0.0 would say that there were none."""
    return 1 if max(abs(value) for value in values if value is not None) >= 1 else 3


def _rounded(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:.{digits}f}"  # + 0.0: no minus before a zero


def _unseen(cell: Cell) -> list[float]:
    """The scores before clips that training never shows, of the seeds that finished and have them."""
    return [run.unseen_score for run in cell.runs if run.finished and run.unseen_score is not None]


def _iqm(cell: Cell, rng: np.random.Generator) -> str:
    return interval(estimate(iqm, [cell.array], rng=rng)) if cell.scores else NONE


def _budget(cell: Cell) -> list[str]:
    """Decisions as configured; frames and updates as counted at the end of it."""
    ends = [run.curve for run in cell.runs if run.finished]
    counted = [[getattr(curve, unit)[-1] for curve in ends] for unit in ("frames", "updates")]
    return [f"{cell.setting.decisions:,}", *(f"{max(counts):,}" if counts else NONE for counts in counted)]


def _seeds(cell: Cell) -> str:
    planned = len(cell.runs) + len(cell.missing)
    return str(planned) if planned == len(cell.scores) else f"{len(cell.scores)} of {planned}"


def _beside(cell: Cell, published: list[Published]) -> list[str]:
    if not published:
        return [NONE] * 4
    parts = [(str(p), _same(cell, p), _published_budget(p), p.source) for p in published]
    return ["; ".join(words) for words in zip(*parts, strict=True)]


def _published_budget(row: Published) -> str:
    if row.decisions is None:
        return f"{short(row.frames)} frames" if row.frames else "not stated" if row.quantity == "return" else NONE
    frames = f", {short(row.decisions * row.action_repeat)} frames" if row.action_repeat else ""
    return f"{short(row.decisions)} decisions{frames}, {short(row.decisions)} updates"


def _same(cell: Cell, row: Published) -> str:
    """Whether the paper's number was made with the budget, action repeat and scale of ours, or what differs."""
    setting, column = cell.setting, cell.column
    words = [] if setting.scale == "paper" else [f"{setting.scale} scale here"]
    if row.decisions is None:
        words.append("the paper's budget is not stated")
    elif row.decisions != setting.decisions:
        words.append(f"{short(setting.decisions)} decisions here")
    if row.action_repeat not in (None, setting.action_repeat):
        words.append(f"action repeat {setting.action_repeat} here, {row.action_repeat} there")
    if column.label not in (row.method, column.method, f"{column.method} ({column.fidelity})"):
        words.append("a variant of the method here")
    return f"no: {', '.join(words)}" if words else "yes"
