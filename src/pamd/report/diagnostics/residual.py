"""The section on residual fitting: all curves in one figure, and the absorption ratios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pamd.report.diagnostics.section import Picture, Section, number
from pamd.report.figures import color, save_figure
from pamd.table import Table

_STYLES = {"frozen": "-", "trainable": (0, (4, 1.5))}


def section(data: dict[str, Any], directory: Path) -> Section:
    """Write the figure of one experiment and return the section."""
    save_figure(_figure(data), directory / "residual")
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
        [Picture("residual", "Residual over updates: mean over seeds and one standard error. Thin: training batch.")],
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
    rows = [
        [head["distance"], f"{head['parameters']:,}", str(head["options"].get("hidden", "-"))] for head in data["heads"]
    ]
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


def _band(axes: Any, steps: list[int], rows: Any, label: str | None, look: dict[str, Any]) -> None:
    """Draw the mean of rows [seeds, N] with a band of one standard error, clipped at a tenth of the mean."""
    mean = rows.mean(0)
    error = rows.std(0, ddof=1) / len(rows) ** 0.5 if len(rows) > 1 else np.zeros_like(mean)
    axes.plot(steps, mean, linewidth=1.8, label=label, **look)
    axes.fill_between(
        steps, np.maximum(mean - error, mean / 10), mean + error, color=look["color"], alpha=0.15, linewidth=0
    )
