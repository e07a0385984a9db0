"""Reports on run directories: pages, tables and figures. This package only reads files and does not need torch."""

from __future__ import annotations

from pamd.report.figure import learning_curves
from pamd.report.load import load_run
from pamd.report.run import Curve, Run

__all__ = ["Curve", "Run", "learning_curves", "load_run"]
