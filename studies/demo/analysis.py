"""The returns and learning curves of the demo."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pamd.report import learning_curves, tables
from pamd.report.comparison import compare
from pamd.report.run import load_runs
from studies.output import publish_figure, write_tables

__all__ = ["HERE", "write"]

HERE = Path(__file__).parent


def write(out: Path = HERE, *, figures: bool = True) -> None:
    """Write the table of returns and the figure."""
    runs = load_runs([HERE / "runs.parquet"])
    write_tables([tables.summary(compare(runs), np.random.default_rng(0))], out / "tables")
    if figures:
        publish_figure(learning_curves([run.curve for run in runs], out / "figures" / "learning-curves"))
