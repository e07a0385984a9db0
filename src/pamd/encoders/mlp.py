"""The encoder of state vectors: a multilayer perceptron."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pamd.config import check_whole
from pamd.encoders.base import ENCODERS, Encoder
from pamd.initialization import initialize

__all__ = ["Mlp", "MlpConfig"]


@dataclass(frozen=True)
class MlpConfig:
    """`layers` hidden layers of `hidden` units with ReLU, then a linear projection."""

    hidden: int = 256
    """Units of every hidden layer."""
    layers: int = 2
    """Number of hidden layers."""

    def __post_init__(self) -> None:
        check_whole("encoder 'mlp'", "hidden", self.hidden, 1)
        check_whole("encoder 'mlp'", "layers", self.layers, 1)


@ENCODERS.register("mlp")
class Mlp(Encoder[MlpConfig]):
    """An encoder of observations [B, ...], flattened to [B, n] -> [B, d]. Bytes are scaled to [0, 1]."""

    Config = MlpConfig

    @classmethod
    def check(cls, config: MlpConfig, observation_shape: tuple[int, ...]) -> None:
        for length in observation_shape:
            check_whole("encoder 'mlp'", "each side of observation_shape", length, 1)

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
