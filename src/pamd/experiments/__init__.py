"""Experiments: the paper's tables and figures, and open questions, one file each. They do not import torch."""

from __future__ import annotations

from pamd.experiments.base import EXPERIMENTS, SCALES, Arm, Experiment, Labeled, Setting

__all__ = ["EXPERIMENTS", "SCALES", "Arm", "Experiment", "Labeled", "Setting"]
