"""Tables of the return of each run by frames, one per task."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pamd.report.run import load_runs
from pamd.table import Table, Value
from studies.output import write_tables

__all__ = ["HERE", "write"]

HERE = Path(__file__).parent
EVERY = 10_000
"""The tables have one column for this many frames."""


def write(out: Path = HERE, *, figures: bool = True) -> None:
    """Write one table per task. The study has no figure."""
    runs = sorted(load_runs([HERE / "runs.parquet"]), key=lambda run: (run.curve.method != "sac", run.seed))
    tables = []
    for task in sorted({run.curve.task for run in runs}):
        curves = [run.curve for run in runs if run.curve.task == task]
        frames = [count for count in curves[0].frames if count % EVERY == 0]
        rows: list[list[Value]] = []
        for curve in curves:
            returns = dict(zip(curve.frames, map(np.mean, curve.returns), strict=True))
            name = f"`{curve.method}`, seed {curve.seed}"
            rows.append([name, *(round(float(returns[count]), 1) if count in returns else None for count in frames)])
        tables.append(Table(task, f"Return on {task}", ["frames", *(f"{count:,}" for count in frames)], rows))
    write_tables(tables, out / "tables")
