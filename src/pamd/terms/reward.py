"""The reward term: a decoder that predicts the reward from the predicted next latent (DBC, DeepMDP)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.errors import ConfigError
from pamd.initialization import Initialization, initialize
from pamd.latents import BatchLatents
from pamd.schema import NonNegative, record
from pamd.terms.base import TERMS, Term
from pamd.terms.transition import Transition
from pamd.types import Batch, Loss

HIDDEN = 512


@record(what="a reward term")
class RewardConfig:
    """The options of `reward` and `state-reward`."""

    init: Initialization = "orthogonal"
    """How the weights are initialized."""
    weight: NonNegative = 1.0
    """Weight of the loss."""
    weight_decay: NonNegative = 1e-7
    """Weight decay of the reward model."""


def reward_layers(latent_dim: int, outputs: int, init: Initialization) -> nn.Sequential:
    """Return the network d -> 512 -> LayerNorm -> ReLU -> outputs."""
    layers = nn.Sequential(nn.Linear(latent_dim, HIDDEN), nn.LayerNorm(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs))
    if init == "orthogonal":
        initialize(layers)
    return layers


@TERMS.register("reward")
class Reward(Term[RewardConfig]):
    """The squared error of the reward that is decoded from a sample of the predicted next latent."""

    Config = RewardConfig

    def __init__(self, config: RewardConfig, latent_dim: int, action_dim: int) -> None:
        super().__init__(config, latent_dim, action_dim)
        self.layers = reward_layers(latent_dim, 1, config.init)

    def decode(self, z_next: Tensor) -> Tensor:
        """Predict the rewards from next latents: [B, d] -> [B]."""
        reward: Tensor = self.layers(z_next).squeeze(-1)
        return reward

    def loss(self, latents: BatchLatents, batch: Batch) -> Loss:
        transition: Transition = latents.terms["transition"]
        predicted = transition.prediction(latents).member(latents.generator).sample(latents.generator)
        loss = F.mse_loss(self.decode(predicted), batch.reward)
        return Loss(self.config.weight * loss, {"reward_loss": loss.detach()})

    @torch.no_grad()
    def action_rewards(self, latents: BatchLatents, z: Tensor, actions: Tensor) -> Tensor:
        """Return the rewards [B, K] that the model predicts in states z [B, d] for each of the actions [K, A]."""
        transition: Transition = latents.terms["transition"]
        size, count = len(z), len(actions)
        predicted = transition.predict_by_one(latents, z.repeat_interleave(count, 0), actions.repeat(size, 1))
        return self.decode(predicted.mean[0]).view(size, count)

    @classmethod
    def check(cls, config: RewardConfig, method: Any) -> None:
        if method.term("transition") is None:
            raise ConfigError(
                f"method {method.name!r}: term 'reward' reads the predicted next latent and requires term 'transition';"
                " add it (--set method.transition={}), or drop the reward, too (--set method.reward=null)"
            )
        if method.term("state-reward") is not None:
            raise ConfigError(
                f"method {method.name!r}: terms 'reward' and 'state-reward' both predict the reward; choose one"
            )
