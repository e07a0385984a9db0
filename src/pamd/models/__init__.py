"""The latent model: dynamics and reward."""

from __future__ import annotations

from pamd.models.reward import RewardDecoder
from pamd.models.state_reward import StateReward
from pamd.models.transition import ALL, Prediction, Transition, TransitionKind, TransitionStd, make_transition

__all__ = [
    "ALL",
    "Prediction",
    "RewardDecoder",
    "StateReward",
    "Transition",
    "TransitionKind",
    "TransitionStd",
    "make_transition",
]
