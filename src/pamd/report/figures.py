"""Figures in the style of the page, as SVG and PNG: learning curves and performance profiles.

A method has the same color in every figure. An SVG also contains colors for a dark page, so it follows the reader's
color scheme.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import textwrap
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.report.comparison import Cell, Column, Comparison, common, normalized, scored_columns
from pamd.report.run import Curve, Run
from pamd.report.statistics import performance_profile, profile_interval
from pamd.table import counted

# Six colors of Okabe and Ito's color-blind safe palette and two of Paul Tol's. Black is reserved for text.
_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#882255", "#999933")
NAMED = {
    "dbc": _PALETTE[5],
    "dbc-det": _PALETTE[1],
    "dbc-det+pamd": _PALETTE[0],
    "mico": _PALETTE[3],
    "simsr": _PALETTE[2],
    "simsr+pamd": _PALETTE[4],
    "simsr+mlp": _PALETTE[6],
    "sac": _PALETTE[7],
    # A distance has the color of the method that uses it.
    "pamd": _PALETTE[0],
    "l1": _PALETTE[1],
    "cosine": _PALETTE[2],
    "adaptive-diagonal": _PALETTE[4],
    "diagonal": _PALETTE[5],
    "mlp": _PALETTE[6],
    "pamd-lowrank": _PALETTE[7],
    "l2": "#6E6E6E",
    # The simulator's state is not a method, but figures compare methods with it.
    "state": "#222222",
}


PNG_DPI = 150
"""The resolution of a PNG in pixels per inch. An SVG and a PNG have the same size on the page."""
_MAX_LENGTH = 200
"""The maximum number of characters in a label."""


INK = "#1b1b1b"
_STYLE: dict[str, Any] = {
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    **{"axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "axes.titlesize": 10},
    **{"axes.facecolor": "none", "grid.color": "#8a8a8a", "font.size": 10, "legend.frameon": False},
    "svg.hashsalt": "pamd",
    "text.hinting": "no_hinting",  # Else text in a PNG is wider than the layout, made for the SVG, expects.
}
"""The matplotlib style of all figures."""
_DARK = {
    INK: "#e6e6e6", "#222222": "#e6e6e6", "#333333": "#bdbdbd", "#404040": "#bdbdbd", "#595959": "#bdbdbd",
    "#6e6e6e": "#a8a8a8", "#882255": "#d1679f",
}  # fmt: skip
"""Replacements for colors that would be hard to see on a dark page. Keys are lowercase."""


def color(method: str) -> str:
    """Return the color of a method, which is the same in every figure."""
    return NAMED.get(method) or _PALETTE[zlib.crc32(method.encode()) % len(_PALETTE)]


def dark(hue: str) -> str:
    """Return the replacement for `hue` on a dark page."""
    return _DARK.get(hue.lower(), hue)


@contextlib.contextmanager
def page_style() -> Iterator[None]:
    """Apply the style of the page to figures, as a context manager or a decorator."""
    import matplotlib

    matplotlib.use("Agg")
    style: Any = _STYLE
    with matplotlib.rc_context(style):
        yield


def plain(text: str) -> str:
    """Shorten and escape a label, because matplotlib would draw text between dollar signs as a formula."""
    return textwrap.shorten(text, _MAX_LENGTH, placeholder=" …").replace("$", r"\$")


@page_style()
def learning_curves(
    curves: Sequence[Curve], path: Path, *, baseline: float | None = None, title: str | None = None
) -> list[Path]:
    """Draw the mean evaluation return over decisions with a band of one standard error over episodes (SVG and PNG).

    `baseline` is the return of random actions, which is drawn as a line.
    """
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.2, 4.4), layout="constrained")
    for curve in curves:
        means = [statistics.fmean(returns) for returns in curve.returns]
        errors = [
            statistics.stdev(returns) / len(returns) ** 0.5 if len(returns) > 1 else 0.0 for returns in curve.returns
        ]
        hue = color(curve.method)
        axes.plot(curve.decisions, means, color=hue, linewidth=2, label=plain(f"{curve.method}, seed {curve.seed}"))
        low, high = ([m + sign * e for m, e in zip(means, errors, strict=True)] for sign in (-1, 1))
        axes.fill_between(curve.decisions, low, high, color=hue, alpha=0.18, linewidth=0)
    if baseline is not None:
        axes.axhline(baseline, color="0.35", linestyle="--", linewidth=1.2, label=f"random play ({baseline:.0f})")
    axes.set_xlabel("decisions (= updates after the random phase)")
    axes.set_ylabel("return of an evaluation episode")
    axes.set_title(plain(title or ", ".join(sorted({curve.task for curve in curves}))))
    axes.grid(alpha=0.25)
    # The legend is below the axes, so that it does not cover a curve.
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return save_figure(figure, path)


def save_figure(figure: Any, path: Path) -> list[Path]:
    """Write a matplotlib figure as SVG and PNG, and close it."""
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    written = [path.with_name(f"{path.name}{suffix}") for suffix in (".svg", ".png")]
    svg, png = written
    figure.savefig(svg, facecolor="none", metadata={"Date": None})
    figure.set_layout_engine("none")  # The layout, which takes as long as drawing, is the same for both files.
    svg.write_text(svg.read_text("utf-8").replace("</svg>", f"{_dark_style()}</svg>"), "utf-8")
    figure.savefig(png, facecolor="white", dpi=PNG_DPI)
    pyplot.close(figure)
    return written


def _dark_style() -> str:
    rules = [
        f'[style*="{part}: {light}"] {{ {part}: {other} !important }}'
        for light, other in _DARK.items()
        for part in ("fill", "stroke")
    ]
    return f"<style>@media (prefers-color-scheme: dark) {{ {' '.join(rules)} }}</style>\n"


@dataclass(frozen=True)
class MeanCurve:
    """The mean over seeds at G points. `error` is NaN for a single seed; `seconds` is NaN if a run has no timing."""

    decisions: NDArray[np.int64]
    frames: NDArray[np.float64]
    updates: NDArray[np.float64]
    seconds: NDArray[np.float64]
    mean: NDArray[np.float64]
    error: NDArray[np.float64]
    seeds: NDArray[np.int64]


def align(curve: Curve, grid: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mean return of the last evaluation at or before each grid point [G].

    The value is NaN before the first and after the last evaluation.
    """
    if not curve.decisions:
        return np.full(len(grid), np.nan)
    steps = np.asarray(curve.decisions)
    index = np.searchsorted(steps, grid, side="right") - 1
    return np.where((index >= 0) & (grid <= steps[-1]), curve.means[np.maximum(index, 0)], np.nan)


def mean_curve(runs: Sequence[Run]) -> MeanCurve:
    """Return the mean, standard error and number of seeds on the union of the runs' evaluation steps."""
    curves = [run.curve for run in runs if run.curve.decisions]
    grid = np.array(sorted({step for curve in curves for step in curve.decisions}), dtype=np.int64)
    values = np.array([align(curve, grid) for curve in curves]).reshape(len(curves), len(grid))
    present = np.isfinite(values)  # Every grid point has a run: it is a step of one.
    seeds = present.sum(axis=0)

    def over_runs(lines: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean over the runs at each grid point."""
        return np.asarray(np.where(present, lines, 0.0).sum(axis=0) / seeds)

    def unit(name: str) -> NDArray[np.float64]:
        """Return a unit at the grid points, interpolated within each run and averaged over the runs at each point."""
        lines = [_interpolated(curve, getattr(curve, name), grid) for curve in curves]
        return over_runs(np.array(lines).reshape(values.shape))

    mean = over_runs(values)
    variance = over_runs((values - mean) ** 2) * seeds / np.where(seeds > 1, seeds - 1, np.nan)
    return MeanCurve(
        decisions=grid,
        frames=unit("frames"),
        updates=unit("updates"),
        seconds=unit("seconds"),
        mean=mean,
        error=np.sqrt(variance / seeds),
        seeds=seeds,
    )


def quartiles(runs: Sequence[Run], grid: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the lower quartile, the median and the upper quartile of the runs at each grid point, [3, G]."""
    values = np.array([align(run.curve, grid) for run in runs])
    # NumPy's quantiles that ignore NaN are slow, and usually all runs are as long.
    quantile = np.nanquantile if np.isnan(values).any() else np.quantile
    return np.asarray(quantile(values, (0.25, 0.5, 0.75), axis=0))


def _interpolated(curve: Curve, values: Sequence[float | None], grid: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.interp(grid, curve.decisions, np.array(values, dtype=np.float64))  # None becomes NaN.


_DASHES = ("", "6 3", "2 2", "8 3 2 3")
_WIDE = 3
"""The maximum number of panels per row."""


def styles(columns: Sequence[Column]) -> dict[Column, tuple[str, str]]:
    """Return the color and dash pattern of each column. Dashes distinguish columns with the same color."""
    found: dict[Column, tuple[str, str]] = {}
    for column in columns:
        hues = (color(column.method), *_PALETTE)
        looks = ((hue, dashes) for own in (hues[:1], hues[1:]) for dashes in _DASHES for hue in own)
        taken = set(found.values())
        found[column] = next((look for look in looks if look not in taken), (hues[0], ""))
    return found


@page_style()
def curves(comparison: Comparison, path: Path, quantity: str = "return") -> list[Path]:
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
        axes.set_ylabel(quantity)
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

    Returns [] if there are no common tasks, the highest possible return of a task is unknown, or a method has one run.
    """
    from matplotlib import pyplot

    columns = scored_columns(comparison, scale)
    settings = common(comparison, scale, columns)
    scores = {column: normalized(comparison, settings, column) for column in columns}
    if not settings or any(one is None or sum(map(len, one)) < 2 for one in scores.values()):
        return []
    figure, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    thresholds, look = np.linspace(0, 1, 101), styles(comparison.columns)
    for column, tasks in scores.items():
        assert tasks is not None
        hue, dashes = look[column]
        axes.step(thresholds, performance_profile(tasks, thresholds), where="post", **_line(hue, dashes))
        if all(len(task) > 1 for task in tasks):
            low, high = profile_interval(tasks, thresholds, rng=rng)
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
