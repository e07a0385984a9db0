"""Tables of the study: updates next to each other, and returns in pairs with an interval."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pamd.report.run import Run, load_runs
from pamd.report.statistics import Estimate, Scores, Values, bootstrap
from pamd.table import Table, Value
from studies.geometry.search import last_return
from studies.output import write_tables
from studies.precision import updates
from studies.precision.plan import HERE, PRECISIONS, SEEDS, TASKS

__all__ = ["RUNS", "write"]

RUNS = HERE / "runs.parquet"
RESAMPLES = 100_000
WINDOW = 100
"""Updates per row of the table of losses."""


def write(out: Path = HERE, *, runs: Path = RUNS, figures: bool = True) -> list[Table]:
    """Write out/tables/*.csv and return the tables. There are no figures."""
    loaded = [run for run in load_runs([runs]) if run.finished] if runs.exists() else []
    tables = [_losses(updates.rows()), _returns(loaded)]
    write_tables(tables, out / "tables")
    return tables


def _losses(rows: Sequence[dict[str, str]]) -> Table:
    """Return the means of the losses over windows of updates, and the last comparison of latents in each window."""
    made: list[list[Value]] = []

    def window(row: dict[str, str]) -> int:
        return -(-int(row["update"]) // WINDOW) * WINDOW

    for end, inside in itertools.groupby(rows, window):
        several = list(inside)
        for name in updates.AGENTS:
            own = [row for row in several if row["agent"] == name]
            means = [f"{np.mean([float(row[loss]) for row in own]):.4g}" for loss in updates.LOSSES]
            last = own[-1]
            made.append([f"{end - WINDOW + 1} to {last['update']}", name, *means, last["distances"], last["rounding"]])
    columns = ["updates", "agent", *updates.LOSSES, "correlation of distances", "rounding"]
    return Table("updates", "Losses and latents at the paper's scale", columns, made)


def _returns(runs: Sequence[Run]) -> Table:
    """Return the final returns of each task in both precisions, and the mean paired difference with its interval."""
    found = {
        (str(r.config["precision"]), str(r.config["env"]["task"]), r.seed): last_return(r.curve.returns) for r in runs
    }
    rows: list[list[Value]] = []
    differences: list[Values] = []
    for task in TASKS:
        seeds = [seed for seed in SEEDS if all((precision, task, seed) in found for precision in PRECISIONS)]
        returns = {p: np.array([found[p, task, seed] for seed in seeds]) for p in PRECISIONS}
        if len(seeds) > 1:
            differences.append(returns["bfloat16"] - returns["float32"])
            means = [f"{returns[precision].mean():.1f}" for precision in PRECISIONS]
            rows.append([task, len(seeds), *means, _estimate(differences[-1:])])
    if len(differences) == len(TASKS):
        rows.append(["mean", sum(map(len, differences)), "", "", _estimate(differences)])
    return Table("returns", "bfloat16 - float32", ["task", "pairs", *PRECISIONS, "difference"], rows)


def _estimate(differences: Scores) -> Estimate:
    """Return the mean over tasks of the mean difference, with its 95% bootstrap interval over seeds within tasks."""
    low, high = bootstrap(_mean, differences, rng=np.random.default_rng(0), times=RESAMPLES)
    return Estimate(float(_mean(differences)), float(low), float(high), digits=1)


def _mean(differences: Scores) -> Values:
    return np.asarray(np.mean([task.mean(-1) for task in differences], axis=0))
