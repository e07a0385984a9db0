"""The paper's numbers beside ours: which belong to a cell, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pamd.published import Published
from pamd.report.aggregate import Cell
from pamd.report.settings import short
from pamd.table import Quantity, Table, Value

__all__ = ["COLUMNS", "beside", "matching", "published_table"]

COLUMNS = ("paper", "same budget and scale?", "paper's budget", "paper's source")


@dataclass(frozen=True)
class _Quoted(Quantity):
    """Numbers of the paper; more than one where it has them at several budgets."""

    numbers: tuple[Published, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.numbers))

    def parts(self) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        for index, number in enumerate(self.numbers, start=1):
            which = f" {index}" if index > 1 else ""
            found |= {f"mean{which}": number.mean, f"error{which}": number.error}
        return found


def beside(cell: Cell, published: Sequence[Published]) -> list[Value]:
    """The cells of `COLUMNS`."""
    found = matching(cell, published)
    if not found:
        return [None] * len(COLUMNS)
    words = [(_same(cell, p), _budget(p), p.source) for p in found]
    return [_Quoted(tuple(found)), *("; ".join(texts) for texts in zip(*words, strict=True))]


def matching(cell: Cell, published: Sequence[Published]) -> list[Published]:
    """The paper's returns for the task, background and method of a cell."""
    names = {cell.column.label, cell.column.method}
    rows = [p for p in published if p.quantity == "return" and p.task == cell.setting.task]
    # The paper has videos or the task's own background; noise or a plain colour is neither.
    rows = [p for p in rows if p.method in names and (cell.setting.video if p.video else not cell.setting.background)]
    exact = [p for p in rows if p.method == cell.column.label]
    # Two tables of the paper may print the same number.
    return list({(p.mean, p.error, p.decisions): p for p in reversed(exact or rows)}.values())[::-1]


def published_table(published: Sequence[Published]) -> Table:
    """The paper's own numbers."""
    rows: list[list[Value]] = []
    for row in published:
        task, source = row.task + (" (video)" if row.video else ""), row.source + (f"; {row.note}" if row.note else "")
        rows.append([task, row.method, row.quantity, _Quoted((row,)), _budget(row), row.seeds, source])
    columns = ["task", "method", "quantity", "value", "budget", "seeds", "source"]
    notes = ["≈: read from a figure, so approximate. Where the paper prints no number there is none."]
    return Table("paper", "What the paper reports", columns, rows, notes)


def _budget(row: Published) -> str | None:
    if row.decisions is None:
        return f"{short(row.frames)} frames" if row.frames else "not stated" if row.quantity == "return" else None
    frames = f", {short(row.decisions * row.action_repeat)} frames" if row.action_repeat else ""
    return f"{short(row.decisions)} decisions{frames}, {short(row.decisions)} updates"


def _same(cell: Cell, row: Published) -> str:
    """Whether the paper's number has the budget, action repeat and scale of ours; if not, what differs."""
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
