"""Figures for print (SVG and PNG): learning curves over seeds, and performance profiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pamd.report.aggregate import Cell, Comparison
from pamd.report.curves import mean_curve
from pamd.report.figure import PALETTE, color, page_style, plain, save_figure
from pamd.report.inference import common, normalized, scored_columns
from pamd.report.settings import Column
from pamd.report.statistics import bootstrap, performance_profile
from pamd.table import counted

__all__ = ["curves", "draw_cell", "legend_handles", "profiles", "styles"]

_DASHES = ("", "6 3", "2 2", "8 3 2 3")
_WIDE = 3
"""The maximum number of panels per row."""


def styles(columns: Sequence[Column]) -> dict[Column, tuple[str, str]]:
    """Return the color and dash pattern of each column. Dashes distinguish columns with the same color."""
    found: dict[Column, tuple[str, str]] = {}
    for column in columns:
        hues = (color(column.method), *PALETTE)
        looks = ((hue, dashes) for own in (hues[:1], hues[1:]) for dashes in _DASHES for hue in own)
        taken = set(found.values())
        found[column] = next((look for look in looks if look not in taken), (hues[0], ""))
    return found


@page_style()
def curves(comparison: Comparison, path: Path) -> list[Path]:
    """Draw a panel per setting: the mean over seeds with one standard error, as a thin line where seeds are missing."""
    from matplotlib import pyplot
    from matplotlib.ticker import EngFormatter, MaxNLocator

    look, count = styles(comparison.columns), len(comparison.settings)
    wide = min(math.ceil(math.sqrt(count)), _WIDE)
    high = -(-count // wide)
    figure, places = pyplot.subplots(
        high, wide, figsize=(max(4.6 * wide, 6.4), 3.2 * high), layout="constrained", squeeze=False
    )
    for axes, setting in zip(places.flat, comparison.settings, strict=False):
        for cell in comparison.row(setting):
            draw_cell(axes, cell, *look[cell.column])
        axes.set_title(plain(setting.label), fontsize=9, wrap=True)
        axes.set_xlabel(f"decisions (each {counted(setting.action_repeat, 'frame')})")
        axes.set_ylabel("return")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.grid(alpha=0.25)
    for axes in places.flat[count:]:
        axes.set_visible(False)
    _legend(figure, {c.label: style for c, style in look.items()})
    return save_figure(figure, path)


@page_style()
def profiles(comparison: Comparison, scale: str, path: Path, rng: np.random.Generator) -> list[Path]:
    """Draw the share of runs above each normalized return over the common tasks.

    Returns [] if there are no common tasks or the highest possible return of a task is unknown.
    """
    from matplotlib import pyplot

    columns = scored_columns(comparison, scale)
    settings = common(comparison, scale, columns)
    scores = {column: normalized(comparison, settings, column) for column in columns}
    if not settings or any(one is None for one in scores.values()):
        return []
    figure, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    thresholds, look = np.linspace(0, 1, 101), styles(comparison.columns)
    for column, tasks in scores.items():
        assert tasks is not None
        hue, dashes = look[column]
        axes.step(thresholds, performance_profile(tasks, thresholds), where="post", **_line(hue, dashes))
        if all(len(task) > 1 for task in tasks):
            low, high = bootstrap(lambda drawn: performance_profile(drawn, thresholds), tasks, rng=rng, times=500)
            axes.fill_between(thresholds, low, high, step="post", color=hue, alpha=0.15, linewidth=0)
    axes.set_xlabel("return / 1000")
    axes.set_ylabel("share of runs above it")
    title = f"Performance profiles, {scale} scale: {', '.join(s.name for s in settings)}"
    axes.set_title(plain(title), fontsize=9, wrap=True)
    axes.grid(alpha=0.25)
    _legend(figure, {column.label: look[column] for column in columns})
    return save_figure(figure, path)


def draw_cell(axes: Any, cell: Cell, hue: str, dashes: str) -> None:
    """Draw the mean over seeds with one standard error."""
    curve = mean_curve(cell.runs)
    if not len(curve.decisions):
        return
    whole = curve.seeds == len(cell.runs)
    # The thin part begins at the last point of the complete part, so that the line has no gap.
    rest = ~whole | np.append(~whole[1:], False)
    axes.plot(curve.decisions, np.where(whole, curve.mean, np.nan), **_line(hue, dashes))
    axes.plot(curve.decisions, np.where(rest, curve.mean, np.nan), **{**_line(hue, dashes), "linewidth": 0.8})
    error = np.nan_to_num(curve.error)
    axes.fill_between(curve.decisions, curve.mean - error, curve.mean + error, color=hue, alpha=0.18, linewidth=0)


def _line(hue: str, dashes: str) -> dict[str, Any]:
    style: Any = (0, tuple(float(part) / 1.5 for part in dashes.split())) if dashes else "-"
    return {"color": hue, "linestyle": style, "linewidth": 1.8}


def legend_handles(look: dict[str, tuple[str, str]]) -> list[Any]:
    """Return a line for each label with its color and dash pattern."""
    from matplotlib.lines import Line2D

    return [Line2D([], [], label=plain(label), **_line(*style)) for label, style in look.items()]


def _legend(figure: Any, look: dict[str, tuple[str, str]]) -> None:
    """Draw the legend below the axes, so that it does not cover a curve."""
    widest = max(len(plain(label)) for label in look)
    columns = max(1, min(4, 90 // (widest + 8)))
    wide, high = figure.get_size_inches()
    figure.set_size_inches(wide, high + 0.24 * -(-len(look) // columns))  # A long legend does not shrink the panels.
    figure.legend(handles=legend_handles(look), loc="outside lower center", ncols=columns, frameon=False)
