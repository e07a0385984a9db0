"""A Gaussian model of a state's reward, for operators that require the reward's noise."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from pamd.initialization import Initialization, initialize

__all__ = ["RewardPrediction", "StateReward"]

STD_MIN, STD_MAX = 1e-4, 1.0


class RewardPrediction(NamedTuple):
    """The predicted rewards of B states."""

    mean: Tensor
    """[B]"""
    std: Tensor
    """[B], between 1e-4 and 1"""

    def loss(self, reward: Tensor) -> Tensor:
        """Return the mean negative log-likelihood [] of reward [B], without constants."""
        return (((reward - self.mean) / self.std).square() / 2 + self.std.log()).mean()


class StateReward(nn.Module):
    """A Gaussian reward model: d -> 512 -> LayerNorm -> ReLU -> mean and raw standard deviation."""

    def __init__(self, latent_dim: int, init: Initialization = "orthogonal", hidden: int = 512) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(latent_dim, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, 2)
        )
        if init == "orthogonal":
            initialize(self)

    def forward(self, z: Tensor) -> RewardPrediction:
        """Predict the rewards of states z [B, d]."""
        mean, raw = self.layers(z).unbind(-1)
        return RewardPrediction(mean, STD_MIN + (STD_MAX - STD_MIN) * torch.sigmoid(raw))
