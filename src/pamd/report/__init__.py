"""Reports on runs: pages, tables and figures. This package only reads files and does not need torch."""

from __future__ import annotations

from pamd.report.comparison import Comparison, compare
from pamd.report.figures import learning_curves
from pamd.report.run import Curve, Run, load_run, load_runs, read_runs

__all__ = ["Comparison", "Curve", "Run", "compare", "learning_curves", "load_run", "load_runs", "read_runs"]
