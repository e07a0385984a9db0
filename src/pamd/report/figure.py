"""Figures, as SVG and PNG: the same method has the same colour everywhere."""

from __future__ import annotations

import statistics
import textwrap
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pamd.report.run import Curve

__all__ = ["colour", "learning_curves", "plain", "save_figure"]

# Okabe and Ito's palette, which colour-blind readers can tell apart; black is kept for text.
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
    # Distances have the colour of the method that is known by them.
    "pamd": PALETTE[0],
    "l1": PALETTE[1],
    "cosine": PALETTE[2],
    "adaptive-diagonal": PALETTE[4],
    "diagonal": PALETTE[5],
    "mlp": PALETTE[6],
    "pamd-lowrank": PALETTE[7],
    "l2": "#6E6E6E",
    # The simulator's own state: no method, but it is compared with them.
    "state": "#222222",
}


_LONGEST = 200
"""Characters of a label in a figure."""


def colour(method: str) -> str:
    """The colour of a method, whatever else is in the figure."""
    return NAMED.get(method) or PALETTE[zlib.crc32(method.encode()) % len(PALETTE)]


def plain(text: str) -> str:
    """A label that matplotlib draws as it is: a pair of dollar signs would make a formula of it."""
    return textwrap.shorten(text, _LONGEST, placeholder=" …").replace("$", r"\$")


def learning_curves(
    curves: Sequence[Curve], path: Path, *, baseline: float | None = None, title: str | None = None
) -> list[Path]:
    """Mean evaluation return against decisions, a band of one standard error over episodes; SVG and PNG.

    `baseline` draws a line at the return of random play.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.2, 4.4), layout="constrained")
    for curve in curves:
        means = [statistics.fmean(returns) for returns in curve.returns]
        errors = [
            statistics.stdev(returns) / len(returns) ** 0.5 if len(returns) > 1 else 0.0 for returns in curve.returns
        ]
        hue = colour(curve.method)
        axes.plot(curve.decisions, means, color=hue, linewidth=2, label=plain(f"{curve.method}, seed {curve.seed}"))
        low, high = ([m + sign * e for m, e in zip(means, errors, strict=True)] for sign in (-1, 1))
        axes.fill_between(curve.decisions, low, high, color=hue, alpha=0.18, linewidth=0)
    if baseline is not None:
        axes.axhline(baseline, color="0.35", linestyle="--", linewidth=1.2, label=f"random play ({baseline:.0f})")
    axes.set_xlabel("decisions (= updates after the random phase)")
    axes.set_ylabel("return of an evaluation episode")
    axes.set_title(plain(title or ", ".join(sorted({curve.task for curve in curves}))))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    # Below the axes, where it covers no curve.
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return save_figure(figure, path)


def save_figure(figure: Any, path: Path, dpi: int = 150) -> list[Path]:
    """Write a matplotlib figure as SVG and PNG, and close it."""
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    written = [path.with_name(f"{path.name}{suffix}") for suffix in (".svg", ".png")]
    for file in written:
        figure.savefig(file, dpi=dpi)
    pyplot.close(figure)
    return written
