"""The TACO term: a state and the next K actions recognize the state K steps later, and predict the rewards."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from pamd.initialization import initialize
from pamd.latents import BatchLatents, Copy
from pamd.schema import Count, NonNegative, record
from pamd.terms.base import TERMS, Term
from pamd.terms.contrastive import InfoNCE, mean_of
from pamd.types import Batch, Loss


@record
class TacoConfig:
    """The options of `taco`."""

    steps: Count = 3
    """K, the number of actions between the two states."""
    token_dim: Count = 16
    """Number of coordinates of an action's token."""
    hidden: Count = 512
    """Units of the hidden layer of the projection and of the reward model."""
    next_encoder: Literal["online", "ema"] = "online"
    """The copy of the encoder that computes the latents K steps later."""
    reward_weight: NonNegative = 1.0
    """Weight of the squared error of the predicted reward, relative to the contrastive loss."""
    weight: NonNegative = 1.0
    """Weight of the loss."""


@TERMS.register("taco")
class Taco(Term[TacoConfig]):
    """InfoNCE between a projection of (z_t, tokens of a_t, ..., a_{t+K-1}) and z_{t+K}, plus the reward's error.

    The latents z_{t+K} carry no gradient. The reward is the sum over the K steps, predicted from z_t and the tokens.
    Rows whose episode or replay ends earlier do not count. A token is A -> 64 -> ReLU -> token_dim; the projection and
    the reward model are inputs -> hidden -> ReLU -> outputs. The method `taco` also has the term `curl`.
    """

    Config = TacoConfig

    def __init__(self, config: TacoConfig, latent_dim: int, action_dim: int) -> None:
        super().__init__(config, latent_dim, action_dim)
        inputs = latent_dim + config.steps * config.token_dim
        self.tokens = nn.Sequential(nn.Linear(action_dim, 64), nn.ReLU(), nn.Linear(64, config.token_dim))
        self.project, self.reward = (
            nn.Sequential(nn.Linear(inputs, config.hidden), nn.ReLU(), nn.Linear(config.hidden, outputs))
            for outputs in (latent_dim, 1)
        )
        initialize(self)
        self.contrast = InfoNCE(latent_dim)

    def loss(self, latents: BatchLatents, batch: Batch) -> Loss:
        window = self.windows(batch)
        complete = window.length == self.config.steps
        joined = torch.cat([latents.z, self.tokens(window.action).flatten(1)], dim=-1)
        later = latents.latent("window_obs", self.config.next_encoder)
        contrast, accuracy = self.contrast(self.project(joined), later, complete)
        error = (self.reward(joined).squeeze(-1) - window.reward.sum(1)).square()
        reward = mean_of(error, complete)
        loss = self.config.weight * (contrast + self.config.reward_weight * reward)
        metrics = {"taco_loss": contrast.detach(), "taco_reward_loss": reward.detach(), "taco_accuracy": accuracy}
        return Loss(loss, metrics)

    @classmethod
    def copies(cls, config: TacoConfig) -> frozenset[Copy]:
        return frozenset({config.next_encoder})

    @classmethod
    def window(cls, config: TacoConfig) -> int:
        return config.steps
