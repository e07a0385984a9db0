"""Tables and figure of the earlier runs, beside the paper's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pamd import published
from pamd.report import figures as drawings
from pamd.report.comparison import compare
from pamd.report.run import load_runs
from pamd.table import Table, Value
from studies.output import comparison_tables, publish_figure, write_tables

__all__ = ["HERE", "write"]

HERE = Path(__file__).parent
PAPER = ("table1", "fig1-independent")
SMALLER_REWARD_WEIGHT = "cheetah_run_simsr+pamd_s0_65118700"
"""A single run with c_R = 1 - gamma. It is no part of the comparison."""


def write(out: Path = HERE, *, figures: bool = True) -> None:
    """Write the tables and the figure of the runs."""
    runs = [run for run in load_runs([HERE / "runs.parquet"]) if run.name != SMALLER_REWARD_WEIGHT]
    comparison = compare(runs)
    numbers = [row for name in PAPER for row in published.load(name)]
    write_tables([*comparison_tables(comparison, numbers), _geometry()], out / "tables")
    if figures:
        publish_figure(drawings.curves(comparison, out / "figures" / "learning-curves"))


def _geometry() -> Table:
    """Return the geometry of the learned matrices: medians over the pairs of `pamd diagnose geometry`."""
    from pyarrow import parquet

    fits: list[dict[str, Any]] = parquet.read_table(HERE / "geometry.parquet").to_pylist()
    rows: list[list[Value]] = [
        [
            fit["run"],
            fit["pairs"],
            round(float(np.median(np.divide(fit["value"], fit["upper"]))), 3),
            round(float(np.median(fit["effective_rank"])), 2),
            round(fit["triangle_violations"], 4),
        ]
        for fit in fits
    ]
    columns = ["run", "pairs", "value over upper bound", "effective rank", "triangle violations"]
    return Table("geometry", "Geometry of the learned matrices", columns, rows)
