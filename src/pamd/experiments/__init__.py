"""The paper's tables and figures, and the questions it leaves open, as data: one file each. Imports no torch."""

from __future__ import annotations

from pamd.experiments.base import EXPERIMENTS, SCALES, Arm, Experiment, Labelled, Setting

__all__ = ["EXPERIMENTS", "SCALES", "Arm", "Experiment", "Labelled", "Setting"]
