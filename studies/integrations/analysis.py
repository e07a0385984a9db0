"""The table and figure of the learning curves of Stable-Baselines3."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from pamd.report.figures import page_style, save_figure
from pamd.runs.campaigns import campaign_runs, read_packed
from pamd.table import Table, Value
from studies.output import publish_figure, write_tables

__all__ = ["HERE", "curves", "write"]

HERE = Path(__file__).parent
FIELDS = ("task", "algorithm", "method", "seed", "decisions", "frames", "updates", "return")
METHODS = {"none": "plain SB3", "simsr+pamd": "`simsr+pamd`", "mico": "`mico`"}
COLORS = {"none": "C7", "simsr+pamd": "C0", "mico": "C1"}

Row = dict[str, Any]


def write(out: Path = HERE, *, figures: bool = True) -> None:
    """Write curves.csv, returns.csv and the figure from runs.parquet."""
    runs = campaign_runs(HERE / "runs.parquet")
    rows = curves((read_packed(run, "config.json"), read_packed(run, "eval.jsonl")) for run in runs)
    table = Table("curves", "Evaluations", FIELDS, [[row[field] for field in FIELDS] for row in rows])
    write_tables([table, _final(rows)], out / "tables")
    if figures:
        publish_figure(_figure(rows, out / "figures" / "learning-curves"))


def curves(runs: Iterable[tuple[bytes, bytes]]) -> list[Row]:
    """Return every evaluation of every run, (config.json, eval.jsonl). These are not runs of `pamd train`."""
    rows = []
    for config, evaluations in runs:
        described = json.loads(config)
        rows += [{**described, **json.loads(line)} for line in evaluations.splitlines()]
    return [{key: row[key] for key in FIELDS} for row in rows]


def _final(rows: list[Row]) -> Table:
    """Return the final returns, seed by seed."""
    last = {(row["algorithm"], row["task"], row["method"], row["seed"]): row["return"] for row in rows}
    tasks = sorted({(algorithm, task) for algorithm, task, *_ in last}, reverse=True)
    cells: list[list[Value]] = []
    for algorithm, task in tasks:
        small = max(abs(value) for key, value in last.items() if key[:2] == (algorithm, task)) < 10
        found = [
            [value for key, value in sorted(last.items()) if key[:3] == (algorithm, task, method)] for method in METHODS
        ]
        shown = (", ".join(f"{value:.1f}" if small else f"{value:.0f}" for value in values) for values in found)
        cells.append([f"{algorithm}, `{task}`", *shown])
    return Table("returns", "Final return, seeds 0 and 1", ["final return, seeds 0 and 1", *METHODS.values()], cells)


@page_style()
def _figure(rows: list[Row], path: Path) -> list[Path]:
    """Draw one panel per task with one color per method: the curve of each seed, and their mean."""
    from matplotlib import pyplot

    tasks = sorted({(row["algorithm"], row["task"]) for row in rows}, reverse=True)
    figure, axes = pyplot.subplots(1, len(tasks), figsize=(5 * len(tasks), 4), squeeze=False, layout="constrained")
    for axis, (algorithm, task) in zip(axes[0], tasks, strict=True):
        for method, color in COLORS.items():
            found: dict[int, dict[int, float]] = {}
            for row in rows:
                if (row["task"], row["method"]) == (task, method):
                    found.setdefault(row["seed"], {})[row["frames"]] = row["return"]
            for curve in found.values():
                axis.plot(list(curve), list(curve.values()), color=color, alpha=0.3)
            if found:
                shared = sorted(set.intersection(*(set(curve) for curve in found.values())))
                mean = [np.mean([curve[frames] for curve in found.values()]) for frames in shared]
                seeds = ", ".join(map(str, sorted(found)))
                axis.plot(shared, mean, color=color, label=f"{METHODS[method].strip('`')} (seeds: {seeds})")
        axis.set(title=f"{algorithm}, {task}", xlabel="frames", ylabel="mean return of an evaluation")
        axis.legend()
    return save_figure(figure, path)
