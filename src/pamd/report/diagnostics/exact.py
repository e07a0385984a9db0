"""The sections on exact metrics: fits for each latent dimension, and the dimension that each distance needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pamd.report.diagnostics.heads import add_legend, kind_color, label_ends
from pamd.report.diagnostics.section import Picture, Section, number
from pamd.report.figures import color, save_figure
from pamd.table import Table

_FITS = 0.05
"""A relative residual below this counts as a fit: more than 95% of the metric's variance is explained."""

_PANELS = 6
"""The maximum number of metrics with a panel each. A figure of more metrics shows medians over them."""
_TALLEST = 30.0
"""The top of an axis of distortions."""

Cell = dict[str, Any]


def section(data: dict[str, Any], directory: Path) -> Section:
    """Write the figures of one experiment and return the section."""
    cells = data["cells"]
    if len({(c["mdp"], c["metric"]) for c in cells}) > _PANELS:
        save_figure(_summary(cells), directory / "distortion")
        caption = f"Medians over all metrics against the latent dimension. Larger values are drawn at {_TALLEST:g}."
        tables, pictures = [], [Picture("distortion", caption)]
    else:
        save_figure(_figure(cells, "residual", "relative residual, fitted pairs"), directory / "fitted")
        save_figure(_figure(cells, "held_out", "relative residual, held-out pairs"), directory / "held_out")
        tables, pictures = [_dimensions(cells)], [
            Picture("fitted", "Error on the fitted pairs against the latent dimension; mean over seeds."),
            Picture("held_out", "Error on pairs that were held out."),
        ]  # fmt: skip
    settings = data["settings"]
    paragraphs = [
        "Each distance was fitted to exact metrics of finite MDPs over a table of one latent vector per state: frozen"
        f" at random vectors, or trained with the distance ({settings['steps']} steps; heads have nearly as many"
        " parameters as pamd's of the same dimension).",
        f"{settings['held_out']:.0%} of the pairs were held out of the fit. A head that fits the other pairs with a"
        " frozen table but not these has memorized pairs instead of finding an embedding.",
        "Relative residual: the squared error after the best rescaling, divided by the variance of the metric. A"
        " constant distance has 1. Distortion: the largest ratio of distance and metric over the smallest, of all"
        " pairs.",
    ]
    return Section(
        "Exact behavioral metrics, embedded",
        paragraphs,
        [*tables, _by_dimension(cells), *([_sizes(data["spaces"])] if data.get("spaces") else [])],
        pictures,
    )


def _dimensions(cells: list[Cell]) -> Table:
    """Return a table of the smallest dimension at which each distance fits, for each metric and encoder."""
    tables = list(dict.fromkeys((c["mdp"], c["metric"]) for c in cells))
    rows = []
    for distance in dict.fromkeys(c["distance"] for c in cells):
        for encoder in ("trainable", "frozen"):
            row = [distance, encoder]
            for measure in ("residual", "held_out"):
                for mdp, metric in tables:
                    selected = _where(cells, mdp=mdp, metric=metric, distance=distance, encoder=encoder)
                    row.append(_smallest(selected, measure))
            rows.append(row)
    names = [f"{mdp} {metric}" for mdp, metric in tables]
    columns = ["distance", "table", *names, *(f"{name}, held out" for name in names)]
    return Table("dimensions", f"Smallest dimension with a relative residual below {_FITS:.0%}", columns, rows)


def _by_dimension(cells: list[Cell]) -> Table:
    """Return a table of errors over all metrics and seeds, at the smallest and at the largest dimension."""
    dimensions = sorted({c["latent_dim"] for c in cells})
    counted = all(c.get("violations") is not None for c in cells)  # not by earlier versions
    rows = []
    for distance in dict.fromkeys(c["distance"] for c in cells):
        for encoder in ("trainable", "frozen"):
            for d in dict.fromkeys((dimensions[0], dimensions[-1])):
                selected = _where(cells, distance=distance, encoder=encoder, latent_dim=d)
                if not selected:
                    continue
                distortion = [float("inf") if c["distortion"] is None else c["distortion"] for c in selected]
                rows.append(
                    [
                        distance,
                        encoder,
                        str(d),
                        number(float(np.median(distortion))),
                        f"{np.mean([c['rank_correlation'] for c in selected]):.2f}",
                        number(float(np.mean([c["residual"] for c in selected]))),
                        number(float(np.mean([c["held_out"] for c in selected]))),
                        *([f"{np.mean([c['violations'] for c in selected]):.1%}"] if counted else []),
                    ]
                )
    columns = ["distance", "table", "d", "distortion (median)", "rank correlation", "residual", "held out"]
    columns += ["triangle violations"] if counted else []
    return Table("errors", "Over all metrics and seeds", columns, rows)


def _where(cells: list[Cell], **fields: Any) -> list[Cell]:
    return [c for c in cells if all(c[key] == value for key, value in fields.items())]


def _smallest(cells: list[Cell], measure: str) -> str:
    for d in sorted({c["latent_dim"] for c in cells}):
        if np.mean([c[measure] for c in cells if c["latent_dim"] == d]) < _FITS:
            return str(d)
    return "none"


def _figure(cells: list[Cell], measure: str, label: str) -> Any:
    from matplotlib import pyplot

    tables = list(dict.fromkeys((c["mdp"], c["metric"]) for c in cells))
    encoders = ("trainable", "frozen")
    figure, grid = pyplot.subplots(
        len(encoders), len(tables), figsize=(3.1 * len(tables) + 0.6, 6.2), sharex=True, sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    dimensions = sorted({c["latent_dim"] for c in cells})
    floor: Callable[[float], float] = lambda x: max(x, 1e-6)  # noqa: E731  the log axis ends somewhere
    for row, encoder in zip(grid, encoders, strict=True):
        for axes, (mdp, metric) in zip(row, tables, strict=True):
            for distance in dict.fromkeys(c["distance"] for c in cells):
                selected = _where(cells, mdp=mdp, metric=metric, encoder=encoder, distance=distance)
                points = [(d, [c[measure] for c in selected if c["latent_dim"] == d]) for d in dimensions]
                points = [(d, values) for d, values in points if values]
                means = [floor(float(np.mean(values))) for _, values in points]
                first = axes is grid[0, 0]
                axes.plot(
                    [d for d, _ in points], means, color=color(distance), marker="o", markersize=4, linewidth=1.8,
                    label=distance if first else None,
                )  # fmt: skip
            axes.axhline(_FITS, color="0.35", linestyle=":", linewidth=1.2)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(dimensions, [str(d) for d in dimensions])
            axes.grid(alpha=0.25)
            if encoder == encoders[0]:
                axes.set_title(f"{mdp}, {metric}")
            else:
                axes.set_xlabel("latent dimension")
        row[0].set_ylabel(f"{encoder} table\n{label}")
    figure.legend(loc="outside lower center", ncols=7, frameon=False)
    return figure


def _summary(cells: list[Cell]) -> Any:
    """Draw medians over metrics and seeds: distortion with both tables, and the error of held-out pairs."""
    from matplotlib import pyplot

    panels = (
        ("distortion", "trainable", "distortion, trained table"),
        ("distortion", "frozen", "distortion, frozen table"),
        ("held_out", "trainable", "relative residual of held-out pairs, trained table"),
    )
    figure, grid = pyplot.subplots(1, len(panels), figsize=(13.2, 5.2), layout="constrained")
    names = list(dict.fromkeys(c["distance"] for c in cells))
    dimensions = sorted({c["latent_dim"] for c in cells})
    for axes, (measure, encoder, title) in zip(grid, panels, strict=True):
        ends = {}
        for name in names:
            selected = _where(cells, distance=name, encoder=encoder)
            values = [_median([c[measure] for c in selected if c["latent_dim"] == d]) for d in dimensions]
            ends[name] = min(values[-1], _TALLEST)
            axes.plot(
                dimensions, np.minimum(values, _TALLEST), color=kind_color(name), marker="o", markersize=3.5,
                linewidth=2.4 if name == "pamd" else 1.4, alpha=0.9,
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(dimensions, [str(d) for d in dimensions])
        axes.set_xlabel("latent dimension")
        axes.set_title(title)
        axes.grid(alpha=0.25)
        if measure == "distortion":
            axes.set_ylim(1, _TALLEST)
            axes.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"], minor=False)
            axes.minorticks_off()
        label_ends(axes, ends)
    count = len({(c["mdp"], c["metric"]) for c in cells})
    figure.suptitle(f"{count} exact metrics, medians (1 is a perfect distortion; a constant distance has residual 1)")
    add_legend(figure, names)
    return figure


def _median(values: list[float | None]) -> float:
    """Return the median, in which None stands for infinity."""
    return float(np.median([math.inf if value is None else value for value in values]))


_COLUMNS = 4
"""The maximum number of panels per row."""


def dimension_section(data: dict[str, Any], directory: Path) -> Section:
    """Write the figure and a CSV of its points, and return the section."""
    within, dimensions = data["settings"]["within"], data["settings"]["dimensions"]
    save_figure(_dimension_figure(data), directory / "dimension")
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
        "Dimension needed", paragraphs, [_needs(data), _sizes(data["spaces"])], [Picture("dimension", caption)]
    )


def _sizes(spaces: list[dict[str, Any]]) -> Table:
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


def _dimension_figure(data: dict[str, Any]) -> Any:
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
