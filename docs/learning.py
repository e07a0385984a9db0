"""Draw docs/learning.png from the runs in results/bench/learning: `python docs/learning.py`."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt

from pamd.benchmarks.learning import TASKS, read_points
from pamd.report.figure import NAMED

HERE = Path(__file__).parent
RUNS = HERE.parent / "results" / "bench" / "learning"
OLD = "#8a8a8a"
"""The color of the scale of version 0.2.0."""


def main() -> None:
    """Draw a panel for each task: the return of each run over its training time, and the target return."""
    figure, panels = plt.subplots(1, len(TASKS), figsize=(13, 3.2), dpi=100, sharex=True, layout="constrained")
    lines = {}
    for axes, (task, target) in zip(panels, TASKS.items(), strict=True):
        axes.axhline(target, color="0.4", lw=0.8, ls=":")
        for run in sorted(RUNS.glob(f"{task}_*")):
            label, color = _kind(run)
            points = read_points(run)
            (line,) = axes.plot(
                [point.seconds / 60 for point in points], [point.mean for point in points], color=color, lw=1.2
            )
            lines.setdefault(label, line)
        axes.set(title=task, xlabel="minutes of training", ylim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("return")
    order = sorted(lines, key=lambda label: (label.startswith("cpu-0.2"), label != "cpu, sac", label))
    figure.legend([lines[label] for label in order], order, loc="outside lower center", ncols=len(order), frameon=False)
    figure.savefig(HERE / "learning.png", metadata={"Software": None})


def _kind(run: Path) -> tuple[str, str]:
    """Return the label and the color of a run. The image size distinguishes the two settings."""
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    method = run.name.removeprefix(config["env"]["task"]).split("_")[1]
    return (f"cpu, {method}", NAMED[method]) if config["env"]["size"] == 32 else (f"cpu-0.2, {method}", OLD)


if __name__ == "__main__":
    main()
