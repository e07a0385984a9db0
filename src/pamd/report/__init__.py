"""Run directories in; pages, tables and figures out. Reads files and nothing else; needs no torch."""

from __future__ import annotations

from pamd.report.figure import learning_curves
from pamd.report.load import load_run
from pamd.report.run import Curve, Run

__all__ = ["Curve", "Run", "learning_curves", "load_run"]
