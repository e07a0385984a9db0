"""Draw docs/learning.png from the runs in results/bench/learning.parquet: `python tools/learning.py`."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt

from pamd.report.figures import NAMED
from pamd.training.config import run_name

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.learning import SEEDS, TASKS, make_config, read_points  # noqa: E402

RUNS = ROOT / "results" / "bench" / "learning.parquet"
METHODS, SETTINGS = ("sac", "dbc-det+pamd", "simsr+pamd"), ("cpu-0.2", "cpu")
PIXELS = {task: target for task, target in TASKS.items() if not task.startswith("state:")}
OLD = "#8a8a8a"
"""The color of the scale of version 0.2.0."""


def main() -> None:
    """Draw a panel for each task: the return of each run over its training time, and the target return."""
    figure, panels = plt.subplots(1, len(PIXELS), figsize=(13, 3.2), dpi=100, sharex=True, layout="constrained")
    lines = {}
    for axes, (task, target) in zip(panels, PIXELS.items(), strict=True):
        axes.axhline(target, color="0.4", lw=0.8, ls=":")
        for setting, method, seed in itertools.product(reversed(SETTINGS), METHODS, SEEDS):
            if points := read_points(RUNS / run_name(make_config(task, setting, method, seed))):
                minutes, returns = [point.seconds / 60 for point in points], [point.mean for point in points]
                color = NAMED[method] if setting == "cpu" else OLD
                (line,) = axes.plot(minutes, returns, color=color, lw=1.2)
                lines.setdefault(f"{setting}, {method}", line)
        axes.set(title=task, xlabel="minutes of training", ylim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("return")
    figure.legend(lines.values(), lines, loc="outside lower center", ncols=len(lines), frameon=False)
    figure.savefig(ROOT / "docs" / "learning.png", metadata={"Software": None})


if __name__ == "__main__":
    main()
