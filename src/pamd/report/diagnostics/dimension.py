"""The section on the dimension that each distance needs for a given distortion and the dimension of the metrics."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from pamd.report.diagnostics.section import Picture, Section, number
from pamd.report.figure import color, save_figure
from pamd.table import Table

__all__ = ["section", "sizes"]

_COLUMNS = 4
"""The maximum number of panels per row."""


def section(data: dict[str, Any], directory: Path) -> Section:
    """Write the figure and a CSV of its points, and return the section."""
    within, dimensions = data["settings"]["within"], data["settings"]["dimensions"]
    save_figure(_figure(data), directory / "dimension")
    (directory / "dimension.csv").write_text(_points(data).csv())
    paragraphs = [
        f"{len(data['spaces'])} exact metrics of finite MDPs. Each distance was trained together with a table of one"
        f" latent vector per state, on all pairs, at {', '.join(map(str, dimensions))} dimensions in turn until its"
        f" distortion (largest over smallest ratio to the metric) was at most {within:g}; the best of"
        f" {data['settings']['seeds']} seeds counts.",
        "Effective dimension: the slope of the logarithm of the covering number. The optimizer may miss a fit that"
        " exists, so the dimension shown is an upper bound.",
    ]
    caption = f"Dimension needed for a distortion of at most {within:g} against the metric's effective dimension."
    return Section(
        "Dimension needed", paragraphs, [_needs(data), sizes(data["spaces"])], [Picture("dimension", caption)]
    )


def sizes(spaces: list[dict[str, Any]]) -> Table:
    """Return a table of the sizes of the metrics."""
    rows = [
        [
            space["mdp"],
            space["metric"],
            space["states"],
            number(space["effective_dimension"]),
            number(space["doubling_dimension"]),
            " ".join(map(str, space["covering_number"])),
        ]
        for space in spaces
    ]
    columns = ["MDP", "metric", "states", "effective dimension", "doubling dimension", "balls, radius falling"]
    return Table("sizes", "Sizes of the metrics", columns, rows)


def _needs(data: dict[str, Any]) -> Table:
    """Return a table of the median dimension of each distance and the number of metrics that it did not reach."""
    dimensions, rows = data["settings"]["dimensions"], []
    for name, correlation in data["rank_correlation"].items():
        needed = [cell["dimension"] for cell in data["cells"] if cell["distance"] == name]
        reached = [math.inf if d is None else d for d in needed]
        median = float(np.median(reached))
        shown = f"more than {dimensions[-1]}" if math.isinf(median) else number(median)
        rows.append([name, shown, needed.count(None), f"{correlation:.2f}"])
    columns = ["distance", "median dimension", "metrics not reached", "rank correlation with effective dimension"]
    return Table("needs", "Dimension needed, over all metrics", columns, rows)


def _points(data: dict[str, Any]) -> Table:
    """Return a table of all points of the figure."""
    spaces = {(space["mdp"], space["metric"]): space for space in data["spaces"]}
    rows = []
    for cell in data["cells"]:
        space = spaces[cell["mdp"], cell["metric"]]
        size = [space["states"], space["effective_dimension"], space["doubling_dimension"]]
        rows.append([cell["mdp"], cell["metric"], *size, cell["distance"], cell["dimension"], cell["distortion"]])
    columns = ["mdp", "metric", "states", "effective_dimension", "doubling_dimension", "distance", "dimension",
               "distortion"]  # fmt: skip
    return Table("dimension", "Dimension needed", columns, rows)


def _figure(data: dict[str, Any]) -> Any:
    from matplotlib import pyplot

    names, dimensions = list(data["rank_correlation"]), data["settings"]["dimensions"]
    size = {(space["mdp"], space["metric"]): space["effective_dimension"] for space in data["spaces"]}
    rows = math.ceil(len(names) / _COLUMNS)
    figure, grid = pyplot.subplots(
        rows, min(_COLUMNS, len(names)), figsize=(10.4, 2.5 * rows + 0.5), sharex=True, sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    # Dimensions are evenly spaced on the axis. The last position is for metrics that were not reached.
    height = {d: i for i, d in enumerate([*dimensions, None])}
    for axes, name in zip(grid.flat, names, strict=False):
        cells = [cell for cell in data["cells"] if cell["distance"] == name]
        x = [size[cell["mdp"], cell["metric"]] for cell in cells]
        for missed in (False, True):
            chosen = [i for i, cell in enumerate(cells) if (cell["dimension"] is None) == missed]
            axes.scatter(
                [x[i] for i in chosen], [height[cells[i]["dimension"]] for i in chosen],
                s=26, alpha=0.75, color=color(name), marker="x" if missed else "o", linewidths=1.2 if missed else 0,
            )  # fmt: skip
        axes.set_title(f"{name} ({data['rank_correlation'][name]:+.2f})", fontsize=10)
        axes.set_yticks(range(len(height)), [*map(str, dimensions), "more"])
        axes.set_ylim(-0.5, len(height) - 0.5)
        axes.grid(alpha=0.25)
    for axes in list(grid.flat)[len(names) :]:
        axes.set_visible(False)
    within = data["settings"]["within"]
    figure.supxlabel("effective dimension of the exact metric (in parentheses: rank correlation)", fontsize=10)
    figure.supylabel(f"dimension needed for distortion ≤ {within:g}", fontsize=10)
    return figure
