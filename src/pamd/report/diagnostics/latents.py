"""The section on latents: images of neighbors, correlations, and two-dimensional maps colored by value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pamd.report.diagnostics.section import Picture, Section
from pamd.report.figures import color, save_figure
from pamd.table import Table

_NAMES = {"l2": "l2 of the latents", "state": "simulator state"}


def section(data: dict[str, Any], directory: Path) -> Section:
    """Write the figures of one run's representation and return the section."""
    save_figure(_neighbors(data), directory / "neighbors")
    save_figure(_maps(data), directory / "maps")
    figures = [
        Picture("neighbors", "A state and its nearest neighbors under each distance, nearest first."),
        Picture("maps", "Two-dimensional maps of the states, colored by the critic's value."),
    ]
    if data["correlations"]:
        save_figure(_correlations(data), directory / "correlations")
        figures.insert(
            1, Picture("correlations", "Rank correlation of each distance with differences in value, reward and state.")
        )
    count = len(data["latents"])
    paragraphs = [
        f"{count} new states from the exploring policy of {data['method']}. The state distance is Euclidean in the"
        " simulator's positions and velocities, each divided by its standard deviation. States next to each other in"
        " an episode are left out.",
    ]
    if data["denoising"]:
        factors = ", ".join(f"{_name(name)} {factor:.2f}" for name, factor in data["denoising"].items())
        paragraphs.append(
            f"Denoising factor (1: ignores the background; 0: weighs it as much as the state): {factors}."
        )
    return Section("Representation: which states are similar?", paragraphs, _tables(data), figures)


def _name(comparison: str) -> str:
    return _NAMES.get(comparison, comparison)


def _tables(data: dict[str, Any]) -> list[Table]:
    truths = list(next(iter(data["correlations"].values()), {}))
    rows = [[_name(name), *(f"{row[t]:.2f}" for t in truths)] for name, row in data["correlations"].items()]
    columns = ["distance", *(_truth(t) for t in truths)]
    tables = [Table("correlations", "Spearman's correlation over all pairs", columns, rows)]
    if data["agreement"]:
        shared = [[_name(n), f"{share:.0%}"] for n, share in data["agreement"].items() if n != "state"]
        title = "Share of neighbors that are also neighbors in the simulator's state"
        tables.append(Table("agreement", title, ["distance", "share"], shared))
    return tables


def _truth(name: str) -> str:
    return {"value": "|value difference|", "reward": "|reward difference|", "state": "state distance"}[name]


def _neighbors(data: dict[str, Any]) -> Any:
    from matplotlib import pyplot

    queries, pictures = data["queries"], data["states"]["picture"]
    comparisons = list(data["neighbors"])
    k = data["neighbors"][comparisons[0]].shape[1]
    # A narrow empty column separates the groups.
    widths = [1.0] + [w for _ in comparisons for w in (0.18, *[1.0] * k)]
    width, height = 0.92 * sum(widths), 0.98 * len(queries) + 0.6
    figure, grid = pyplot.subplots(
        len(queries), len(widths), figsize=(width, height), gridspec_kw={"width_ratios": widths}, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axes in grid.ravel():
        axes.axis("off")
    for row, query in zip(grid, queries, strict=True):
        row[0].imshow(pictures[query])
        for group, name in enumerate(comparisons):
            for place, index in enumerate(data["neighbors"][name][query]):
                row[2 + group * (k + 1) + place].imshow(pictures[index])
    grid[0, 0].set_title("state", fontsize=10)
    for group, name in enumerate(comparisons):
        place = grid[0, 2 + group * (k + 1)]
        title = place.text(0, 1.06, f"nearest by {_name(name)}", transform=place.transAxes, color=color(name))
        title.set_in_layout(False)  # It is wider than its image and would move the next image.
    return figure


def _correlations(data: dict[str, Any]) -> Any:
    from matplotlib import pyplot

    names = [name for name in data["correlations"] if name != "state"]
    truths = list(data["correlations"][names[0]])
    figure, axes = pyplot.subplots(figsize=(6.4, 3.8), layout="constrained")
    thickness = 0.8 / len(names)
    for index, name in enumerate(names):
        places = np.arange(len(truths)) + (index - (len(names) - 1) / 2) * thickness
        heights = [data["correlations"][name][truth] for truth in truths]
        axes.bar(places, heights, thickness * 0.92, color=color(name), label=_name(name))
    axes.axhline(0, color="0.2", linewidth=0.8)
    axes.set_xticks(range(len(truths)), [_truth(t) for t in truths])
    axes.set_ylabel("Spearman's correlation")
    axes.set_ylim(min(-0.1, *axes.get_ylim()), 1)
    axes.grid(axis="y", alpha=0.25)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def _maps(data: dict[str, Any]) -> Any:
    from matplotlib import pyplot

    figure, places = pyplot.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    learned = next(iter(data["distances"]))
    titles = {"pca": "principal components of the latents", "mds": f"classical scaling of {_name(learned)}"}
    for axes, (name, title) in zip(places, titles.items(), strict=True):
        points, share = data["maps"][name]
        drawn = axes.scatter(points[:, 0], points[:, 1], c=data["states"]["value"], cmap="viridis", s=16, linewidths=0)
        axes.set_title(title)
        axes.set_xlabel(f"first axis ({share[0]:.0%})")
        axes.set_ylabel(f"second axis ({share[1]:.0%})")
        axes.set_aspect("equal", adjustable="datalim")
        axes.grid(alpha=0.25)
    figure.colorbar(drawn, ax=places, label="critic's value of the state", shrink=0.9)
    return figure
