"""The section on geometry: spectrum, heat maps and histograms of the learned matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pamd.report.diagnostics.section import Picture, Section, number
from pamd.report.figures import color, save_figure
from pamd.table import Table


def section(data: dict[str, Any], directory: Path) -> Section:
    """Write the figures of one run's geometry and return the section."""
    save_figure(_spectrum(data), directory / "spectrum")
    save_figure(_matrices(data), directory / "matrices")
    save_figure(_histograms(data), directory / "histograms")
    d, pairs = data["latent_dim"], len(data["value"])
    lemma = np.asarray(data["value"]) / np.asarray(data["upper"])
    paragraphs = [
        f"The matrix of {data['distance']} over {pairs} pairs of different states from the run's replay"
        f" (d = {d}; the isotropic matrix I/d has effective rank {d}, condition number 1).",
        f"The triangle inequality fails for {data['triangle_violations']:.1%} of {data['triples']} triples, at worst by"
        f" {data['triangle_excess']:.1%}. The median distance is {number(float(np.median(lemma)))} of its upper bound,"
        " the Euclidean distance.",
    ]
    if data["dead_share"] is not None:
        paragraphs.append(
            f"{data['dead_share']:.1%} of the ReHU inputs on the diagonal of L are at or below zero, where the gradient"
            f" is zero. For {data['dead_everywhere']} coordinates this holds on every pair."
        )
    active = ", ".join(f"{name} {share:.1%}" for name, share in data["guards"].items())
    paragraphs.append(f"Share of pairs where a numerical guard makes up more than 1% of its value: {active}.")
    return Section(
        "Geometry of the distance",
        paragraphs,
        [_table(data)],
        [
            Picture("spectrum", "Eigenvalues of G̃, largest first: median and middle 90% of the pairs."),
            Picture("matrices", "G̃ averaged over the pairs, and of the pair with the median effective rank."),
            Picture("histograms", "How the matrix and the distance vary between pairs."),
        ],
    )


_QUANTITIES = {
    "condition": "condition number of G̃",
    "effective_rank": "effective rank of G̃",
    "off_diagonal": "off-diagonal share of |G̃|²",
    "anisotropy": "|G̃ - I/d| (Frobenius)",
    "variation": "|G̃ - mean| / |mean| over pairs",
}


def _table(data: dict[str, Any]) -> Table:
    rows = []
    for name, label in _QUANTITIES.items():
        # "nearest", because interpolation between two infinite values is undefined.
        quantiles = np.quantile(np.asarray(data[name]), [0.05, 0.5, 0.95], method="nearest")
        rows.append([label, *(number(float(q)) for q in quantiles)])
    return Table("pairs", "Over pairs", ["quantity", "5%", "median", "95%"], rows)


def _spectrum(data: dict[str, Any]) -> Any:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")
    eigenvalues = np.asarray(data["eigenvalues"])
    d = data["latent_dim"]
    low, middle, high = np.quantile(eigenvalues, [0.05, 0.5, 0.95], axis=0)
    middle = np.where(middle > 0, middle, np.nan)  # A log axis cannot show zero.
    low = np.where(low > 0, low, np.nan)
    index, hue = np.arange(1, d + 1), color(data["distance"])
    axes.plot(index, middle, color=hue, linewidth=2, label="median over pairs")
    axes.fill_between(index, low, high, color=hue, alpha=0.2, linewidth=0, label="middle 90% of pairs")
    axes.axhline(1 / d, color="0.35", linestyle="--", linewidth=1.2, label="isotropic, 1/d")
    axes.set_yscale("log")
    axes.set_xlabel("eigenvalue number, largest first")
    axes.set_ylabel("eigenvalue of G̃ (trace 1)")
    axes.set_title(f"Spectrum of {data['distance']}")
    axes.grid(alpha=0.25)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def _matrices(data: dict[str, Any]) -> Any:
    from matplotlib import pyplot

    figure, places = pyplot.subplots(1, 2, figsize=(9, 4.3), layout="constrained")
    titles = {"mean_matrix": "mean over pairs", "typical_matrix": "pair of median effective rank"}
    for axes, (name, title) in zip(places, titles.items(), strict=True):
        matrix = np.asarray(data[name])
        limit = float(np.abs(matrix).max())
        image = axes.imshow(matrix, cmap="PuOr", vmin=-limit, vmax=limit, interpolation="nearest")
        axes.set_title(title)
        axes.set_xlabel("latent coordinate")
        axes.set_ylabel("latent coordinate")
        figure.colorbar(image, ax=axes, shrink=0.85, label="entry of G̃")
    return figure


def _histograms(data: dict[str, Any]) -> Any:
    from matplotlib import pyplot

    figure, places = pyplot.subplots(2, 3, figsize=(11, 6), layout="constrained")
    flat, hue = places.ravel(), color(data["distance"])
    for axes, (name, label) in zip(flat, _QUANTITIES.items(), strict=False):
        values = np.asarray(data[name])
        if name == "condition":
            finite = np.isfinite(values)
            values, label = np.log10(values[finite]), f"log₁₀ of {label}"
            if not finite.all():
                axes.set_title(f"singular on {1 - finite.mean():.0%} of the pairs", fontsize=10)
        axes.hist(values, bins=30, color=hue, alpha=0.85)
        axes.set_xlabel(label)
    lemma = np.asarray(data["value"]) / np.asarray(data["upper"])
    flat[-1].hist(lemma, bins=30, color=hue, alpha=0.85)
    flat[-1].axvline(data["latent_dim"] ** -0.5, color="0.25", linestyle="--", linewidth=1.2)
    flat[-1].set_xlabel("d / Euclidean (dashed: isotropic, 1/√d)")
    for axes in flat:
        axes.set_ylabel("pairs")
    figure.suptitle(f"{data['distance']} over {len(data['value'])} pairs of states")
    return figure
