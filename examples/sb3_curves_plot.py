"""Collect the results of examples/sb3_curves.py in one table and one figure.

python examples/sb3_curves_plot.py      # results/integrations/curves.csv and learning-curves.png
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

FIELDS = ("task", "algorithm", "method", "seed", "decisions", "frames", "updates", "return")
COLORS = {"none": "C7", "simsr+pamd": "C0", "mico": "C1"}


def collect(out: Path) -> list[dict[str, Any]]:
    """Return every evaluation of every run, and write them to curves.csv."""
    rows = []
    for config in sorted(out.glob("*/config.json")):
        described = json.loads(config.read_text())
        for line in (config.parent / "eval.jsonl").read_text().splitlines():
            rows.append({key: {**described, **json.loads(line)}[key] for key in FIELDS})
    with (out / "curves.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return rows


def draw(axis: Any, rows: list[dict[str, Any]], method: str) -> None:
    """Plot the curve of each seed, and their mean at frames for which all seeds have a value."""
    curves: dict[int, dict[int, float]] = {}
    for row in rows:
        curves.setdefault(row["seed"], {})[row["frames"]] = row["return"]
    for curve in curves.values():
        axis.plot(list(curve), list(curve.values()), color=COLORS[method], alpha=0.3)
    shared = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    mean = [np.mean([curve[frames] for curve in curves.values()]) for frames in shared]
    label = f"{'plain SB3' if method == 'none' else method} (seeds: {', '.join(map(str, sorted(curves)))})"
    axis.plot(shared, mean, color=COLORS[method], label=label)


def plot(out: Path) -> Path:
    """Draw one panel per task with one color per method, and return the path of the figure."""
    rows = collect(out)
    tasks = sorted({(row["algorithm"], row["task"]) for row in rows}, reverse=True)
    figure, axes = plt.subplots(1, len(tasks), figsize=(5 * len(tasks), 4), squeeze=False)
    for axis, (algorithm, task) in zip(axes[0], tasks, strict=True):
        for method in COLORS:
            found = [row for row in rows if (row["task"], row["method"]) == (task, method)]
            if found:
                draw(axis, found, method)
        axis.set(title=f"{algorithm}, {task}", xlabel="frames", ylabel="mean return of an evaluation")
        axis.legend()
    figure.tight_layout()
    figure.savefig(out / "learning-curves.png", dpi=120)
    plt.close(figure)
    return out / "learning-curves.png"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/integrations"))
    print(plot(parser.parse_args().out))
