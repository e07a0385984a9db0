"""SVG and PNG figures in the style of the page. A method has the same color in every figure.

An SVG also contains colors for a dark page, so it follows the reader's color scheme.
"""

from __future__ import annotations

import contextlib
import statistics
import textwrap
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pamd.report.run import Curve

__all__ = ["color", "dark", "learning_curves", "page_style", "plain", "save_figure"]

# Six colors of Okabe and Ito's color-blind safe palette and two of Paul Tol's. Black is reserved for text.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#882255", "#999933")
NAMED = {
    "dbc": PALETTE[5],
    "dbc-det": PALETTE[1],
    "dbc-det+pamd": PALETTE[0],
    "mico": PALETTE[3],
    "simsr": PALETTE[2],
    "simsr+pamd": PALETTE[4],
    "simsr+mlp": PALETTE[6],
    "sac": PALETTE[7],
    # A distance has the color of the method that uses it.
    "pamd": PALETTE[0],
    "l1": PALETTE[1],
    "cosine": PALETTE[2],
    "adaptive-diagonal": PALETTE[4],
    "diagonal": PALETTE[5],
    "mlp": PALETTE[6],
    "pamd-lowrank": PALETTE[7],
    "l2": "#6E6E6E",
    # The simulator's state is not a method, but figures compare methods with it.
    "state": "#222222",
}


PNG_DPI = 150
"""The resolution of a PNG in pixels per inch. An SVG and a PNG have the same size on the page."""
_LONGEST = 200
"""The maximum number of characters in a label."""


INK = "#1b1b1b"
STYLE: dict[str, Any] = {
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    **{"axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "axes.titlesize": 10},
    **{"axes.facecolor": "none", "grid.color": "#8a8a8a", "font.size": 10, "legend.frameon": False},
    "svg.hashsalt": "pamd",
}
"""The matplotlib style of all figures."""
DARK = {
    INK: "#e6e6e6", "#222222": "#e6e6e6", "#333333": "#bdbdbd", "#404040": "#bdbdbd", "#595959": "#bdbdbd",
    "#6e6e6e": "#a8a8a8", "#882255": "#d1679f",
}  # fmt: skip
"""Replacements for colors that would be hard to see on a dark page. Keys are lowercase."""


def color(method: str) -> str:
    """Return the color of a method, which is the same in every figure."""
    return NAMED.get(method) or PALETTE[zlib.crc32(method.encode()) % len(PALETTE)]


def dark(hue: str) -> str:
    """Return the replacement for `hue` on a dark page."""
    return DARK.get(hue.lower(), hue)


@contextlib.contextmanager
def page_style() -> Iterator[None]:
    """Apply the style of the page to figures, as a context manager or a decorator."""
    import matplotlib

    matplotlib.use("Agg")
    style: Any = STYLE
    with matplotlib.rc_context(style):
        yield


def plain(text: str) -> str:
    """Shorten and escape a label, because matplotlib would draw text between dollar signs as a formula."""
    return textwrap.shorten(text, _LONGEST, placeholder=" …").replace("$", r"\$")


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
    svg.write_text(svg.read_text("utf-8").replace("</svg>", f"{_dark_style()}</svg>"), "utf-8")
    figure.savefig(png, facecolor="white", dpi=PNG_DPI)
    pyplot.close(figure)
    return written


def _dark_style() -> str:
    rules = [
        f'[style*="{part}: {light}"] {{ {part}: {other} !important }}'
        for light, other in DARK.items()
        for part in ("fill", "stroke")
    ]
    return f"<style>@media (prefers-color-scheme: dark) {{ {' '.join(rules)} }}</style>\n"
