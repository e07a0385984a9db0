"""Learners by name. A new file here is a new learner, with no other edit."""

from __future__ import annotations

from pamd.learners.base import LEARNERS, AugmentationPart, Learner, LearnerConfig, LearnerPart, Step

__all__ = ["LEARNERS", "AugmentationPart", "Learner", "LearnerConfig", "LearnerPart", "Step"]
