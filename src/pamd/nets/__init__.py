"""The networks of the agent: encoder, actor, critic, latent transition, reward decoder."""

from __future__ import annotations

from pamd.nets.actor import Actor
from pamd.nets.critic import Critic
from pamd.nets.encoder import Convolutions, Encoder, LatentHead, as_pixels
from pamd.nets.reward import RewardDecoder
from pamd.nets.transition import DeterministicTransition, EnsembleTransition, GaussianTransition, Prediction, Transition

__all__ = [
    "Actor",
    "Convolutions",
    "Critic",
    "DeterministicTransition",
    "Encoder",
    "EnsembleTransition",
    "GaussianTransition",
    "LatentHead",
    "Prediction",
    "RewardDecoder",
    "Transition",
    "as_pixels",
]
