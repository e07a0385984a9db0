"""The section on residual fitting: all curves in one figure, and the absorption ratios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pamd.report.diagnostics.heads import add_legend, kind_color
from pamd.report.diagnostics.section import Picture, Section, number
from pamd.report.figures import color, save_figure
from pamd.table import Table

_CURVES = 4
"""The maximum number of distances with curves. A figure of more shows the ends of their curves."""
_STYLES = {"frozen": "-", "trainable": (0, (4, 1.5))}


_CURVES_CAPTION = "Residual over updates: mean over seeds and one standard error. Thin: training batch."
_ENDS_CAPTION = "Final residual with a frozen (filled) and a trained encoder (open): each seed, and the geometric mean."


def section(data: dict[str, Any], directory: Path) -> Section:
    """Write the figure of one experiment and return the section."""
    many = len({curve["distance"] for curve in data["curves"]}) > _CURVES
    save_figure(_ends_figure(data) if many else _figure(data), directory / "residual")
    settings, source = data["settings"], data["data"]
    where = source.get("source") or f"a random policy on {source['task']}"
    paragraphs = [
        f"Each distance was fitted to its own fixed-point target on {source['transitions']} transitions of {where}"
        f" ({source['size']} x {source['size']} pixels), once with the encoder frozen and once with it trainable, from"
        f" the same weights: preset {settings['preset']}, {settings['steps']:,} updates of"
        f" {settings['batch']} transitions, learning rate {settings['learning_rate']:g}, slow copy"
        f" {settings['tau']:g}, {len(settings['strides'])} convolutions.",
        "The absorption ratio is the share of the residual reduction, in orders of magnitude, that is reached with a"
        " frozen encoder. Near 1, the head can satisfy the target alone, and the encoder need not learn. Near 0, the"
        " residual decreases only if the encoder learns. The table also shows the ratio for the residual divided by the"
        " mean squared target, which does not depend on the scale of the target.",
        f"A distance that is 0 everywhere has residual {number(data['zero'])}. Compare a residual with the mean squared"
        " target, because a distance that shrinks also has a small residual.",
    ]
    return Section(
        "Residual fitting: does the head absorb the supervision?",
        paragraphs,
        [_absorption_table(data), _heads_table(data)],
        [Picture("residual", _ENDS_CAPTION if many else _CURVES_CAPTION)],
    )


def _absorption_table(data: dict[str, Any]) -> Table:
    rows = []
    for row in data["absorption"]:
        scale = {e: _last_scale(data, row["distance"], e) for e in ("frozen", "trainable")}
        rows.append(
            [
                row["distance"],
                str(row["seeds"]),
                number(row["initial"]),
                *(f"{number(row[e])} ({number(scale[e])})" for e in ("frozen", "trainable")),
                _with_error(row["ratio"], row["ratio_error"], row["seeds"]),
                _with_error(row["relative_ratio"], row["relative_ratio_error"], row["seeds"]),
                number(row["level"]),
            ]
        )
    columns = [
        "distance",
        "seeds",
        "start",
        "frozen (target²)",
        "trainable (target²)",
        "absorption",
        "of residual/target²",
        "trainable/frozen",
    ]
    return Table("absorption", "Final residual (in parentheses: mean squared target)", columns, rows)


def _with_error(value: float, error: float, seeds: int) -> str:
    """Return a mean and its standard error. A single seed has no error."""
    return f"{value:.2f} ± {error:.2f}" if seeds > 1 else f"{value:.2f}"


def _heads_table(data: dict[str, Any]) -> Table:
    rows = []
    for head in data["heads"]:
        width = next((str(head["options"][key]) for key in ("hidden", "components") if key in head["options"]), "-")
        rows.append([head["distance"], f"{head['parameters']:,}", width])
    return Table("heads", "Heads", ["distance", "parameters", "hidden"], rows)


def _last_scale(data: dict[str, Any], distance: str, encoder: str) -> float:
    ends = [c["target_square"][-1] for c in data["curves"] if (c["distance"], c["encoder"]) == (distance, encoder)]
    return float(np.mean(ends))


def _figure(data: dict[str, Any]) -> Any:
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.5, 4.8), layout="constrained")
    for distance in dict.fromkeys(curve["distance"] for curve in data["curves"]):
        for encoder, style in _STYLES.items():
            curves = [c for c in data["curves"] if (c["distance"], c["encoder"]) == (distance, encoder)]
            if not curves:
                continue
            steps = curves[0]["steps"]
            residual = np.array([c["residual"] for c in curves])
            relative = residual / np.array([c["target_square"] for c in curves]).clip(1e-12)
            look = {"color": color(distance), "linestyle": style}
            _band(left, steps, residual, f"{distance}, {encoder} encoder", look)
            _band(right, steps, relative, None, look)
            if losses := [c["batch_loss"] for c in curves if c.get("batch_loss")]:
                left.plot(steps, np.mean(losses, 0), linewidth=0.6, alpha=0.6, **look)
    left.axhline(data["zero"], color="0.35", linestyle=":", linewidth=1.4, label="distance 0 everywhere")
    left.set_ylabel("residual: mean (d - target)²")
    right.set_ylabel("residual / mean target²")
    for axes in (left, right):
        axes.set_yscale("log")
        axes.set_xlabel("gradient updates")
        axes.grid(alpha=0.25)
    seeds = max((row["seeds"] for row in data["absorption"]), default=1)
    figure.suptitle(f"Residual fitting, preset {data['settings']['preset']}, {seeds} seed{'s' if seeds > 1 else ''}")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def _ends_figure(data: dict[str, Any]) -> Any:
    """Draw one row per distance: the ends of its curves with a frozen and with a trained encoder."""
    from matplotlib import pyplot
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ends = {(c["distance"], c["encoder"], c["seed"]): _end(c) for c in data["curves"]}
    means = {
        (name, encoder): np.exp(np.log([value for key, value in ends.items() if key[:2] == (name, encoder)]).mean(0))
        for name, encoder in {key[:2] for key in ends}
    }
    whole = {name for name, _ in means if {(name, "frozen"), (name, "trainable")} <= means.keys()}
    names = sorted(whole, key=lambda name: -means[name, "frozen"][1])
    figure, grid = pyplot.subplots(1, 2, figsize=(11, 1.6 + 0.42 * len(names)), sharey=True, layout="constrained")
    titles = ("residual: mean (d - target)²", "residual / mean target²")
    for measure, (axes, title) in enumerate(zip(grid, titles, strict=True)):
        for row, name in enumerate(names):
            hue = kind_color(name)
            pair = [means[name, encoder][measure] for encoder in _STYLES]
            axes.plot(pair, [row, row], color=hue, linewidth=1.6, alpha=0.5, zorder=1)
            for encoder, middle, fill in zip(_STYLES, pair, (hue, "white"), strict=True):
                each = [value[measure] for key, value in ends.items() if key[:2] == (name, encoder)]
                axes.scatter(each, [row] * len(each), marker="|", s=40, color=hue, alpha=0.7, zorder=1)
                axes.scatter([middle], [row], s=70, facecolor=fill, edgecolor=hue, linewidths=1.8, zorder=2)
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())  # Names of minor ticks overlap if the axis is short.
        axes.set_xlabel(title)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.grid(alpha=0.25)
    grid[0].axvline(data["zero"], color="0.35", linestyle=":", linewidth=1.4)
    grid[0].text(data["zero"], len(names) - 0.45, "distance 0 everywhere", fontsize=8, ha="center", va="bottom")
    grid[0].set_yticks(range(len(names)), names)
    for label in grid[0].get_yticklabels():
        label.set_color(kind_color(label.get_text()))
    look: Any = {"linestyle": "none", "marker": "o", "color": "0.3", "markersize": 8}
    filled = Line2D([], [], label="frozen encoder", **look)
    add_legend(figure, names, filled, Line2D([], [], label="trained encoder", markerfacecolor="white", **look))
    return figure


def _end(curve: dict[str, Any]) -> tuple[float, float]:
    """Return the residual and the residual over the mean squared target, means of the last tenth of a curve."""
    residual, target = np.array(curve["residual"]), np.array(curve["target_square"]).clip(1e-12)
    last = max(1, round(0.1 * len(residual)))
    return max(float(residual[-last:].mean()), 1e-12), max(float((residual / target)[-last:].mean()), 1e-12)


def _band(axes: Any, steps: list[int], rows: Any, label: str | None, look: dict[str, Any]) -> None:
    """Draw the mean of rows [seeds, N] with a band of one standard error, clipped at a tenth of the mean."""
    mean = rows.mean(0)
    error = rows.std(0, ddof=1) / len(rows) ** 0.5 if len(rows) > 1 else np.zeros_like(mean)
    axes.plot(steps, mean, linewidth=1.8, label=label, **look)
    axes.fill_between(
        steps, np.maximum(mean - error, mean / 10), mean + error, color=look["color"], alpha=0.15, linewidth=0
    )
