"""Figures of the verdicts: the effects of all pairs, and the learning curves of each claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pamd.report.comparison import Cell, Column, Comparison, Setting
from pamd.report.figures import draw_cell, legend_handles, page_style, plain, save_figure, styles
from studies.verdicts.answers import Answer, Verdict, pairs_of
from studies.verdicts.plan import Claim

__all__ = ["claim_curves", "forest_figure"]

_COLORS: dict[Verdict, str] = {"yes": "#0072B2", "no": "#D55E00", "open": "#6e6e6e"}


@page_style()
def forest_figure(rungs: Mapping[str, Sequence[Answer]], path: Path, units: Mapping[str, str]) -> list[Path]:
    """Draw every difference with its 95% interval. Returns [] if there are no answers.

    `units` maps each rung to the quantity that is compared.
    """
    from matplotlib import pyplot

    keys = pairs_of(rungs)
    if not keys:
        return []
    size = (2.6 * len(rungs) + 4.2, 0.27 * len(keys) + 1.3)
    figure, places = pyplot.subplots(1, len(rungs), figsize=size, layout="constrained", sharey=True, squeeze=False)
    for axes, (rung, found) in zip(places[0], rungs.items(), strict=True):
        edge = _edge(found)
        for answer in found:
            _interval(axes, keys.index((answer.claim, answer.pair)), answer, edge)
        axes.set_xlim(-edge, edge)
        axes.axvline(0, color="#333333", linewidth=0.8)
        axes.set_title(plain(rung))
        axes.set_xlabel(plain(f"difference in {units[rung]}"), fontsize=8)
        axes.tick_params(labelsize=8)
        axes.grid(axis="x", alpha=0.25)
    places[0][0].set_yticks(range(len(keys)), [plain(f"{claim}: {pair}") for claim, pair in keys])
    places[0][0].invert_yaxis()
    _legend(figure)
    return save_figure(figure, path)


def _edge(found: Sequence[Answer]) -> float:
    """Return the limit of the axis on both sides. A few very wide intervals do not make the others unreadable."""
    effects = [answer.effect for answer in found]
    ends = sorted(abs(effect.mean) + effect.half_width() for effect in effects)
    return 1.1 * max(ends[3 * (len(ends) - 1) // 4], *(abs(effect.mean) for effect in effects), 1e-9)


def _interval(axes: Any, row: int, answer: Answer, edge: float) -> None:
    """Draw an effect with its interval. An arrow marks an end of the interval that is outside the axis."""
    mean, half = answer.effect.mean, answer.effect.half_width()
    hue = _COLORS[answer.verdict]
    axes.plot([max(mean - half, -edge), min(mean + half, edge)], [row, row], color=hue, lw=2, solid_capstyle="butt")
    axes.plot(mean, row, color=hue, marker="o", markersize=5)
    for end, marker in ((mean - half, "<"), (mean + half, ">")):
        if abs(end) > edge:
            axes.plot(edge if end > 0 else -edge, row, color=hue, marker=marker, markersize=6, clip_on=False)


def _legend(figure: Any) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=hue, marker="o", linewidth=2, label=name) for name, hue in _COLORS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=8)


_PANEL, _LEGEND = (2.5, 1.7), 2.7
"""The width and height of a panel, and the width of the legends, in inches."""


@page_style()
def claim_curves(comparison: Comparison, claims: Sequence[Claim], path: Path) -> list[Path]:
    """Draw a row for each claim and a panel for each task, with the arms of the claim.

    A panel with all arms would be unreadable. Returns [] if no claim has a pair whose arms both ran on a task.
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
