"""Compare cells with the paper's numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pamd.published import Published
from pamd.report.aggregate import Cell, Comparison
from pamd.report.settings import short
from pamd.table import Quantity, Table, Value

__all__ = ["compared_table", "matching", "place", "published_table"]

_PLACES = {
    "fig:arch": "Figure 1",
    "fig:result1": "Figure 2",
    "fig:cheetah_ablation": "Figure 3",
    "fig:cheetah_visual_disturbance": "Figure 4",
    "fig:result2": "Figure 5",
    "fig:trace_ablation": "Figure 6",
    "tab:dbc_det_comparison": "Table 1",
    "tab:preserved_properties": "Table 2",
    "tab:recent_visual_rl_comparison": "Table 3",
    "tab:pamd_flops": "Table 4",
    "tab:pamd_wallclock_scaling": "Table 5",
    "tab:dbc-mico-simsr-hparams": "Table 6",
    "tab:action-repeat": "Table 7",
}
"""The labels in the source of the paper and the corresponding table and figure numbers."""


@dataclass(frozen=True)
class _Quoted(Quantity):
    """Numbers from the paper. There are several if it reports more than one budget."""

    numbers: tuple[Published, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.numbers))

    def parts(self) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        for index, number in enumerate(self.numbers, start=1):
            which = f" {index}" if index > 1 else ""
            found |= {f"mean{which}": number.mean, f"error{which}": number.error}
        return found


def compared_table(comparison: Comparison, published: Sequence[Published]) -> Table | None:
    """Return a table of our returns and the paper's for all cells that the paper reports; None if there are none."""
    rows: list[list[Value]] = []
    for cell in comparison.rows:
        if found := matching(cell, published):
            words = zip(*((_same(cell, p), _budget(p), place(p.source)) for p in found), strict=True)
            names = [cell.setting.full_name, cell.column.label]
            rows.append([*names, cell.mean, _Quoted(tuple(found)), *("; ".join(texts) for texts in words)])
    if not rows:
        return None
    columns = ["task", "method", "return", "paper", "same budget and scale?", "paper's budget", "paper's source"]
    notes = ["Compare the two returns only if budget and scale are the same. ≈: read from a figure."]
    return Table("paper-comparison", "Compared with the paper", columns, rows, notes)


def place(source: str) -> str:
    """Replace the labels in `source` with table and figure numbers: "tab:dbc_det_comparison" becomes "Table 1"."""
    return re.sub(r"(?:fig|tab):[\w-]+", lambda found: _PLACES.get(found[0], found[0]), source)


def matching(cell: Cell, published: Sequence[Published]) -> list[Published]:
    """Return the paper's numbers for the task, background and method of a cell."""
    names = {cell.column.label, cell.column.method}
    rows = [p for p in published if p.quantity == "return" and p.task == cell.setting.task]
    # The paper uses videos or the task's own background, but no noise or plain colors.
    rows = [p for p in rows if p.method in names and (cell.setting.video if p.video else not cell.setting.background)]
    exact = [p for p in rows if p.method == cell.column.label]
    # Two tables of the paper may contain the same number.
    return list({(p.mean, p.error, p.decisions): p for p in reversed(exact or rows)}.values())[::-1]


def published_table(published: Sequence[Published]) -> Table:
    """Return a table of the paper's numbers."""
    rows: list[list[Value]] = []
    for row in published:
        task = row.task + (" (video)" if row.video else "")
        source = place(row.source + (f"; {row.note}" if row.note else ""))
        rows.append([task, row.method, row.quantity, _Quoted((row,)), _budget(row), row.seeds, source])
    columns = ["task", "method", "quantity", "value", "budget", "seeds", "source"]
    notes = ["≈: approximate, because it was read from a figure. Numbers that the paper does not report are omitted."]
    return Table("paper", "Numbers reported in the paper", columns, rows, notes)


def _budget(row: Published) -> str | None:
    if row.decisions is None:
        return f"{short(row.frames)} frames" if row.frames else "not stated" if row.quantity == "return" else None
    frames = f", {short(row.decisions * row.action_repeat)} frames" if row.action_repeat else ""
    return f"{short(row.decisions)} decisions{frames}, {short(row.decisions)} updates"


def _same(cell: Cell, row: Published) -> str:
    """Return "yes" if budget, action repeat, scale and method match the paper; otherwise "no" and the differences."""
    setting, column = cell.setting, cell.column
    words = [] if setting.scale == "paper" else [f"{setting.scale} scale here"]
    if row.decisions is None:
        words.append("the paper's budget is not stated")
    elif row.decisions != setting.decisions:
        words.append(f"{short(setting.decisions)} decisions here")
    if row.action_repeat not in (None, setting.action_repeat):
        words.append(f"action repeat {setting.action_repeat} here, {row.action_repeat} in the paper")
    if column.label not in (row.method, column.method, f"{column.method} ({column.fidelity})"):
        words.append("a variant of the method here")
    return f"no: {', '.join(words)}" if words else "yes"
