"""The state-reward term: a Gaussian model of a state's reward, for operators that require the reward's noise (RAP)."""

from __future__ import annotations

import torch
from torch import Tensor

from pamd.latents import BatchLatents
from pamd.terms.base import TERMS, Term
from pamd.terms.reward import RewardConfig, reward_layers
from pamd.types import Batch, Loss

STD_MIN, STD_MAX = 1e-4, 1.0


@TERMS.register("state-reward")
class StateReward(Term[RewardConfig]):
    """The negative log-likelihood of the reward under a Gaussian that is predicted from the state's latent."""

    Config = RewardConfig

    def __init__(self, config: RewardConfig, latent_dim: int, action_dim: int) -> None:
        super().__init__(config, latent_dim, action_dim)
        self.layers = reward_layers(latent_dim, 2, config.init)

    def predict(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and the standard deviation, which is between 1e-4 and 1: [B, d] -> [B], [B]."""
        mean, raw = self.layers(z).unbind(-1)
        return mean, STD_MIN + (STD_MAX - STD_MIN) * torch.sigmoid(raw)

    def loss(self, latents: BatchLatents, batch: Batch) -> Loss:
        mean, std = self.predict(latents.z)
        loss = (((batch.reward - mean) / std).square() / 2 + std.log()).mean()
        return Loss(self.config.weight * loss, {"reward_loss": loss.detach()})
