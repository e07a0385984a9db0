"""The encoder of state vectors: a multilayer perceptron."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn

from pamd.encoders.base import ENCODERS, Encoder
from pamd.initialization import initialize
from pamd.schema import Count, check_values, record


@record
class MlpConfig:
    """`layers` hidden layers of `hidden` units with ReLU, then a linear projection."""

    hidden: Count = 256
    """Units of every hidden layer."""
    layers: Count = 2
    """Number of hidden layers."""


@ENCODERS.register("mlp")
class Mlp(Encoder[MlpConfig]):
    """An encoder of observations [B, ...], flattened to [B, n] -> [B, d]. Bytes are scaled to [0, 1]."""

    Config = MlpConfig

    @classmethod
    def check(cls, config: MlpConfig, observation_shape: tuple[int, ...]) -> None:
        check_values("encoder 'mlp'", tuple[Count, ...], observation_shape=observation_shape)

    def __init__(self, config: MlpConfig, observation_shape: tuple[int, ...], latent_dim: int) -> None:
        super().__init__(config, observation_shape, latent_dim)
        widths = [math.prod(observation_shape), *[config.hidden] * config.layers]
        hidden = [(nn.Linear(n, m), nn.ReLU()) for n, m in itertools.pairwise(widths)]
        self.hidden = nn.Sequential(*(layer for pair in hidden for layer in pair))
        self.feature_dim = config.hidden
        self.head = nn.Linear(config.hidden, latent_dim)
        initialize(self)

    def prepare(self, obs: Tensor) -> Tensor:
        dtype: torch.dtype = self.head.weight.dtype  # type: ignore[assignment]
        return obs.to(dtype) / 255 if obs.dtype == torch.uint8 else obs.to(dtype)

    def trunk(self, obs: Tensor) -> Tensor:
        features: Tensor = self.hidden(self.prepare(obs).flatten(1))
        return features
