"""The section on fits of exact metrics for each latent dimension, with trained and with frozen latents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pamd.report.diagnostics.dimension import sizes
from pamd.report.diagnostics.section import Picture, Section, number
from pamd.report.figure import color, save_figure
from pamd.table import Table

__all__ = ["section"]

FITS = 0.05
"""A relative residual below this counts as a fit: more than 95% of the metric's variance is explained."""

Cell = dict[str, Any]


def section(data: dict[str, Any], directory: Path) -> Section:
    """Write the figures of one experiment and return the section."""
    cells = data["cells"]
    save_figure(_figure(cells, "residual", "relative residual, fitted pairs"), directory / "fitted")
    save_figure(_figure(cells, "held_out", "relative residual, held-out pairs"), directory / "held_out")
    settings = data["settings"]
    paragraphs = [
        "Each distance was fitted to exact metrics of finite MDPs over a table of one latent vector per state: frozen"
        f" at random vectors, or trained with the distance ({settings['steps']} steps; heads have nearly as many"
        " parameters as pamd's of the same dimension).",
        f"{settings['held_out']:.0%} of the pairs were held out of the fit. A head that fits the other pairs with a"
        " frozen table but not these has memorized pairs instead of finding an embedding.",
        "Relative residual: the squared error after the best rescaling, divided by the variance of the metric. A"
        " constant distance has 1.",
    ]
    return Section(
        "Exact behavioral metrics, embedded",
        paragraphs,
        [_dimensions(cells), _by_dimension(cells), *([sizes(data["spaces"])] if data.get("spaces") else [])],
        [
            Picture("fitted", "Error on the fitted pairs against the latent dimension; mean over seeds."),
            Picture("held_out", "Error on pairs that were held out."),
        ],
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
    return Table("dimensions", f"Smallest dimension with a relative residual below {FITS:.0%}", columns, rows)


def _by_dimension(cells: list[Cell]) -> Table:
    """Return a table of errors over all metrics and seeds, at the smallest and at the largest dimension."""
    dimensions = sorted({c["latent_dim"] for c in cells})
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
                        number(_finite(float(np.median(distortion)))),
                        f"{np.mean([c['rank_correlation'] for c in selected]):.2f}",
                        number(float(np.mean([c["residual"] for c in selected]))),
                        number(float(np.mean([c["held_out"] for c in selected]))),
                    ]
                )
    columns = ["distance", "table", "d", "distortion (median)", "rank correlation", "residual", "held out"]
    return Table("errors", "Over all metrics and seeds", columns, rows)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _where(cells: list[Cell], **fields: Any) -> list[Cell]:
    return [c for c in cells if all(c[key] == value for key, value in fields.items())]


def _smallest(cells: list[Cell], measure: str) -> str:
    for d in sorted({c["latent_dim"] for c in cells}):
        if np.mean([c[measure] for c in cells if c["latent_dim"] == d]) < FITS:
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
            axes.axhline(FITS, color="0.35", linestyle=":", linewidth=1.2)
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
