"""Learning curves for each claim, because a panel with all arms would be unreadable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pamd.report.aggregate import Cell, Comparison
from pamd.report.figure import page_style, plain, save_figure
from pamd.report.plots import draw_cell, legend_handles, styles
from pamd.report.settings import Column, Setting
from pamd.report.verdicts import Claim

__all__ = ["claim_curves"]

_PANEL, _LEGEND = (2.5, 1.7), 2.7
"""The width and height of a panel, and the width of the legends, in inches."""


@page_style()
def claim_curves(comparison: Comparison, claims: Sequence[Claim], path: Path) -> list[Path]:
    """Draw a row for each claim and a panel for each task, with the arms of the claim.

    Returns [] if no claim has a pair whose arms both ran on a task.
    """
    from matplotlib import pyplot

    rows = [(claim, cells) for claim in claims if (cells := _cells(comparison, claim))]
    if not rows:
        return []
    wide, high = max(len(cells) for _, cells in rows), len(rows)
    size = (_PANEL[0] * wide + _LEGEND, _PANEL[1] * high)
    figure, places = pyplot.subplots(high, wide, figsize=size, layout="constrained", squeeze=False)
    look = styles(comparison.columns)
    for row, (claim, cells) in enumerate(rows):
        for axes in places[row][len(cells) :]:
            axes.axis("off")
        for axes, (setting, found) in zip(places[row], cells.items(), strict=False):
            _panel(axes, setting, found, look)
        places[row][0].set_ylabel(plain(f"{claim.name} return"), fontsize=8)
        arms = {cell.column.label: look[cell.column] for found in cells.values() for cell in found}
        places[row][-1].legend(
            handles=legend_handles(arms), loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=7, frameon=False
        )
    for axes in places[-1]:
        axes.set_xlabel("decisions", fontsize=8)
    return save_figure(figure, path)


def _cells(comparison: Comparison, claim: Claim) -> dict[Setting, list[Cell]]:
    """Return the cells of the claim's arms for each task on which both arms of a pair ran."""
    found: dict[Setting, list[Cell]] = {}
    for setting in comparison.settings:
        cells = {cell.column.label: cell for cell in comparison.row(setting)}
        pairs = [(pair.better, pair.worse) for pair in claim.pairs if pair.better in cells and pair.worse in cells]
        names = dict.fromkeys(name for pair in pairs for name in pair)
        if names:
            found[setting] = [cells[name] for name in names]
    return found


def _panel(axes: Any, setting: Setting, cells: Sequence[Cell], look: dict[Column, tuple[str, str]]) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    for cell in cells:
        draw_cell(axes, cell, *look[cell.column])
    axes.set_title(plain(setting.name), fontsize=7)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.25)
