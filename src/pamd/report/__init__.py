"""Run directories in, figures out. Reads files and nothing else; no torch."""

from __future__ import annotations

from pamd.report.figure import learning_curves
from pamd.report.load import Curve, load_curve

__all__ = ["Curve", "learning_curves", "load_curve"]
