"""DrM: DrQ-v2 that measures its dormant units and perturbs its weights, explores and learns values accordingly."""

from __future__ import annotations

from dataclasses import field

from pamd.learners.base import LEARNERS
from pamd.learners.dormancy import DrmOptions
from pamd.learners.drqv2 import DeterministicLearner, DrqV2Config
from pamd.schema import record


@record
class DrmConfig(DrqV2Config):
    """The options of DrM: those of DrQ-v2, with `drm` on."""

    drm: DrmOptions | None = field(default_factory=DrmOptions)
    """What to do about dormant units."""


@LEARNERS.register("drm")
class DrmLearner(DeterministicLearner):
    """DrQ-v2 with `drm`: the dormant ratio controls perturbations, the exploration noise and the critic's target."""

    Config = DrmConfig
