"""Draw docs/family.png anew from the records: `python tools/family.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from pamd.methods.pipelines import COLUMNS, family
from pamd.table import NONE

DOCS = Path(__file__).parents[1] / "docs"
SHOWN = ("latent space", "comparator", "target", "model", "reward head", "other losses")
WIDTHS = (1.5, 1.4, 3.1, 1.6, 2.7, 1.6)
GAP, LEFT, ROW = 0.14, 2.0, 0.52
SHADES = plt.get_cmap("Pastel1").colors + plt.get_cmap("Pastel2").colors  # type: ignore[attr-defined]


def main() -> None:
    """One row a method, one column a choice. Equal choices of a column have one color."""
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in family().rows]
    width, height = LEFT + sum(WIDTHS) + GAP * len(WIDTHS), ROW * (len(rows) + 2.4)
    figure, axes = plt.subplots(figsize=(width, height), dpi=100)
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    x = LEFT
    for column, wide in zip(SHOWN, WIDTHS, strict=True):
        _column(axes, x, wide, column, [row[column] for row in rows])
        x += wide + GAP
    for index, row in enumerate(rows):
        axes.text(0.05, _top(index) + ROW / 2, str(row["method"]), va="center", fontsize=11, weight="bold")
    flow = "encoder → latent space → z → comparator d(z, z')   ← regressed on ←   target ← model, reward head"
    axes.text(width / 2, ROW * 0.5, flow, ha="center", va="center", fontsize=12)
    figure.savefig(DOCS / "family.png", bbox_inches="tight", metadata={"Software": None})


def _top(index: int) -> float:
    return ROW * (index + 2.2)


def _column(axes: Axes, x: float, wide: float, name: str, values: list[object]) -> None:
    axes.text(x + wide / 2, _top(-1) + ROW * 0.55, name, ha="center", va="center", fontsize=11, style="italic")
    kinds = list(dict.fromkeys(value for value in values if value is not None))
    for index, value in enumerate(values):
        color = "white" if value is None else SHADES[kinds.index(value) % len(SHADES)]
        box = (x, _top(index) + 0.04)
        axes.add_patch(
            FancyBboxPatch(
                box, wide, ROW - 0.08, boxstyle="round,pad=0,rounding_size=0.06", fc=color, ec="0.75", lw=0.6
            )
        )
        text = NONE if value is None else str(value).replace(" next_latents=model", ", next from model")
        axes.text(x + wide / 2, _top(index) + ROW / 2, text, ha="center", va="center", fontsize=10)


if __name__ == "__main__":
    main()
