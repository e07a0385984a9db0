"""Figures, as SVG and PNG: the same method has the same colour everywhere."""

from __future__ import annotations

import statistics
import zlib
from collections.abc import Sequence
from pathlib import Path

from pamd.report.load import Curve

__all__ = ["colour", "learning_curves"]

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
}


def colour(method: str) -> str:
    """The colour of a method, whatever else is in the figure."""
    return NAMED.get(method) or PALETTE[zlib.crc32(method.encode()) % len(PALETTE)]


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
        axes.plot(curve.decisions, means, color=hue, linewidth=2, label=f"{curve.method}, seed {curve.seed}")
        low, high = ([m + sign * e for m, e in zip(means, errors, strict=True)] for sign in (-1, 1))
        axes.fill_between(curve.decisions, low, high, color=hue, alpha=0.18, linewidth=0)
    if baseline is not None:
        axes.axhline(baseline, color="0.35", linestyle="--", linewidth=1.2, label=f"random play ({baseline:.0f})")
    axes.set_xlabel("decisions (= updates after the random phase)")
    axes.set_ylabel("return of an evaluation episode")
    axes.set_title(title or ", ".join(sorted({curve.task for curve in curves})))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    # Below the axes, where it covers no curve.
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = [path.with_suffix(suffix) for suffix in (".svg", ".png")]
    for file in written:
        figure.savefig(file, dpi=150)
    pyplot.close(figure)
    return written
