"""The runs on Meta-World, and the returns of one agent under each condition."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pamd.report.figures import page_style, save_figure
from pamd.report.run import Run, load_runs
from pamd.report.statistics import Mean
from pamd.table import Table, Value
from studies.output import publish_figure, write_tables

__all__ = ["HERE", "write"]

HERE = Path(__file__).parent
COLORS = ("C0", "C1")
TRAINED = "as in training"


def write(out: Path = HERE, *, figures: bool = True) -> None:
    """Write the tables and figures from runs.parquet and evaluations.jsonl."""
    runs = load_runs([HERE / "runs.parquet"])
    manipulation = [run for run in runs if run.curve.task.startswith("metaworld:")]
    evaluations = [json.loads(line) for line in (HERE / "evaluations.jsonl").read_text("utf-8").splitlines()]
    write_tables([_runs(runs), _conditions(evaluations)], out / "tables")
    if figures:
        publish_figure(_curves(manipulation, out / "figures" / "metaworld"))
        publish_figure(_episodes(evaluations, out / "figures" / "conditions"))


def _runs(runs: Sequence[Run]) -> Table:
    """Return the last evaluation, the budget and the time of each run."""
    rows: list[list[Value]] = []
    for run in sorted(runs, key=lambda run: (run.curve.task, run.seed)):
        curve = run.curve
        seconds = max(second for second in curve.seconds if second is not None)
        succeeded = f"{sum(curve.successes[-1])} of {len(curve.successes[-1])}" if curve.successes[-1] else ""
        once = f"{sum(map(any, curve.successes))} of {len(curve.successes)}" if curve.successes[-1] else ""
        returns = [round(float(np.mean(curve.returns[place])), 1) for place in (0, -1)]
        rows.append(
            [
                f"`{curve.task}`",
                run.seed,
                curve.decisions[-1],
                curve.frames[-1],
                round(seconds / 60),
                *returns,
                succeeded,
                once,
            ]
        )
    columns = [
        "task",
        "seed",
        "decisions",
        "frames",
        "minutes",
        "first return",
        "last return",
        "episodes with success, last",
        "evaluations with a success",
    ]
    return Table("runs", "Runs", columns, rows)


def _conditions(evaluations: Sequence[dict[str, Any]]) -> Table:
    """Return the mean over episodes and the gap to the condition of the training, start state by start state."""
    trained = np.array(next(row["returns"] for row in evaluations if "elsewhere" not in row))
    rows: list[list[Value]] = []
    for row in evaluations:
        returns = np.array(row["returns"])
        gap = Mean.over(trained - returns) if "elsewhere" in row else None
        rows.append([row.get("elsewhere", TRAINED), Mean.over(returns), gap])
    return Table("conditions", "Returns by condition", ["condition", "return", "gap"], rows)


@page_style()
def _curves(runs: Sequence[Run], path: Path) -> list[Path]:
    """Draw return and success of every evaluation, with one column per task and one line per seed."""
    from matplotlib import pyplot
    from matplotlib.ticker import MultipleLocator

    tasks = sorted({run.curve.task for run in runs}, reverse=True)
    figure, places = pyplot.subplots(
        2, len(tasks), figsize=(9.6, 5.6), layout="constrained", sharex=True, squeeze=False
    )
    for (upper, lower), task in zip(places.T, tasks, strict=True):
        for run in sorted((run for run in runs if run.curve.task == task), key=lambda run: run.seed):
            curve, look = run.curve, {"color": COLORS[run.seed], "label": f"seed {run.seed}", "linewidth": 1.6}
            upper.plot(curve.decisions, [np.mean(returns) for returns in curve.returns], **look)
            lower.plot(curve.decisions, [np.mean(successes) for successes in curve.successes], **look)
        upper.set_title(task)
        upper.set_ylabel("return")
        lower.set_ylabel("share of episodes with success")
        lower.set_ylim(-0.05, 1.05)
        lower.set_xlabel("decisions (each 2 simulator frames)")
        lower.xaxis.set_major_locator(MultipleLocator(5000))
        upper.set_ylim(bottom=0)
        upper.legend(frameon=False)
        for axis in (upper, lower):
            axis.grid(alpha=0.25)
    return save_figure(figure, path)


@page_style()
def _episodes(evaluations: Sequence[dict[str, Any]], path: Path) -> list[Path]:
    """Draw the return of every episode, with one row per condition."""
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(8.0, 0.36 * len(evaluations) + 1.0), layout="constrained")
    for place, row in enumerate(evaluations):
        axis.plot(row["returns"], [place] * len(row["returns"]), "o", color="C0", alpha=0.45, markersize=5)
        axis.plot(np.mean(row["returns"]), place, "|", color="0.15", markersize=15, markeredgewidth=2)
    axis.set_yticks(range(len(evaluations)), [row.get("elsewhere", TRAINED) for row in evaluations])
    axis.invert_yaxis()
    axis.set_xlim(left=0)
    axis.set_xlabel("return of an episode (bar: mean)")
    axis.grid(alpha=0.25)
    return save_figure(figure, path)
