"""Figures that compare many distances: one color per kind of distance, and names next to what they name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

KINDS = {
    "fixed": ("#6E6E6E", ("l1", "l1-mean", "l2", "l2-unit", "cosine", "coordinate", "mico", "scr")),
    "learned, one metric for all pairs": (
        "#009E73",
        ("diagonal", "mahalanobis", "wide-norm", "deep-norm", "iqe", "mrn", "pqe"),
    ),
    "learned, one matrix per pair": (
        "#0072B2",
        ("pamd", "pamd-block", "pamd-lowrank", "pamd-scaled", "adaptive-diagonal"),
    ),
    "unconstrained": ("#D55E00", ("mlp",)),
}
"""The color and the distances of each kind. Distances from elsewhere are black."""
_OTHER = "#222222"
_GAP = 0.047
"""The least distance of two names, as a share of the height of the axes."""


def kind_color(distance: str) -> str:
    """Return the color of the kind of a distance."""
    return next((hue for hue, names in KINDS.values() if distance in names), _OTHER)


def add_legend(figure: Any, distances: Sequence[str], *marks: Any) -> None:
    """Add a legend of the kinds that occur, and of `marks`, below the axes."""
    from matplotlib.lines import Line2D

    shown = {kind: hue for kind, (hue, names) in KINDS.items() if any(name in names for name in distances)}
    lines = [Line2D([], [], color=hue, linewidth=2.5, label=kind) for kind, hue in shown.items()]
    figure.legend(handles=[*lines, *marks], loc="outside lower center", ncols=len(lines), frameon=False)


def label_ends(axes: Any, ends: Mapping[str, float]) -> None:
    """Write the name of each line at its right end. Names that would overlap are moved apart.

    `ends` has the last value of each line. Call this after the limits of the axes are set.
    """
    names = sorted((name for name in ends if math.isfinite(ends[name])), key=lambda name: ends[name])
    last = axes.get_lines()[0].get_xdata()[-1]
    to_share = axes.transScale + axes.transLimits
    at = [float(to_share.transform((last, ends[name]))[1]) for name in names]
    for name, height in zip(names, _spread(at), strict=True):
        hue = kind_color(name)
        axes.annotate(
            name, (last, ends[name]), xytext=(1.07, height), textcoords="axes fraction", fontsize=8, color=hue,
            va="center", weight="bold" if name == "pamd" else "normal", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": hue, "linewidth": 0.6, "shrinkA": 1, "relpos": (0, 0.5)},
        )  # fmt: skip


def _spread(heights: Sequence[float]) -> list[float]:
    """Move ascending heights in [0, 1] apart until neighbors differ by `_GAP`. They stay in [0, 1] if they fit."""

    def inside(middle: float, count: int) -> float:
        half = min(_GAP * (count - 1) / 2, 0.5)
        return min(max(middle, half), 1 - half)

    groups: list[tuple[float, int]] = []  # the middle and the size of each group of touching names
    for height in heights:
        groups.append((inside(height, 1), 1))
        while len(groups) > 1:
            (below, m), (above, n) = groups[-2:]
            if above - below >= _GAP * (m + n) / 2:
                break
            groups[-2:] = [(inside((m * below + n * above) / (m + n), m + n), m + n)]
    return [middle + _GAP * (i - (count - 1) / 2) for middle, count in groups for i in range(count)]
