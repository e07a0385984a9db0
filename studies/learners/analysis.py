"""Tables of the return of each run by decisions, one per task."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pamd.report.run import load_runs
from pamd.table import Table, Value
from studies.output import write_tables

__all__ = ["HERE", "write"]

HERE = Path(__file__).parent
EVERY = 2_000
"""The tables have one column for this many decisions."""


def write(out: Path = HERE, *, figures: bool = True) -> None:
    """Write one table per task. The study has no figure."""
    runs = sorted(load_runs([HERE / "runs.parquet"]), key=lambda run: (run.curve.method != "sac", run.seed))
    tables = []
    for task in sorted({run.curve.task for run in runs}):
        curves = [run.curve for run in runs if run.curve.task == task]
        columns = [count for count in curves[0].decisions if count % EVERY == 0]
        rows: list[list[Value]] = []
        for curve in curves:
            returns = dict(zip(curve.decisions, map(np.mean, curve.returns), strict=True))
            name = f"`{curve.method}`, seed {curve.seed}"
            rows.append([name, *(round(float(returns[count]), 1) if count in returns else None for count in columns)])
        tables.append(Table(task, f"Return on {task}", ["decisions", *(f"{count:,}" for count in columns)], rows))
    write_tables(tables, out / "tables")
