"""Learners by name. To add a learner, add a file here; no other edit is needed."""

from __future__ import annotations

from pamd.augmentations import AugmentationPart
from pamd.learners.base import LEARNERS, Learner, LearnerConfig, LearnerPart, Step

__all__ = ["LEARNERS", "AugmentationPart", "Learner", "LearnerConfig", "LearnerPart", "Step"]
