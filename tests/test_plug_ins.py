"""A stranger adds an encoder or an augmentation in one class, and trains with it by name. Learners: tests/learners."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import pamd
from pamd.augmentations import AUGMENTATIONS, Augmentation
from pamd.encoders import ENCODERS, Encoder


@dataclass(frozen=True)
class PoolConfig:
    side: int = 4
    """Side of the grid that pictures are averaged to."""


class Pool(Encoder[PoolConfig]):
    """The mean color of each cell of a grid."""

    Config = PoolConfig

    @classmethod
    def check(cls, config: PoolConfig, observation_shape: tuple[int, ...]) -> None:
        pass

    def __init__(self, config: PoolConfig, observation_shape: tuple[int, ...], latent_dim: int) -> None:
        super().__init__(config, observation_shape, latent_dim)
        self.pool = nn.AdaptiveAvgPool2d(config.side)
        self.feature_dim = observation_shape[0] * config.side**2
        self.head = nn.Linear(self.feature_dim, latent_dim)

    def prepare(self, obs: Tensor) -> Tensor:
        return obs.float()

    def trunk(self, obs: Tensor) -> Tensor:
        pooled: Tensor = self.pool(obs.float()).flatten(1) / 255
        return pooled


@dataclass(frozen=True)
class FlipConfig:
    share: float = 0.5
    """Share of pictures that are mirrored."""


class Flip(Augmentation[FlipConfig]):
    """Mirrors some of the pictures."""

    Config = FlipConfig

    def __call__(self, obs: Tensor, generator: torch.Generator) -> Tensor:
        mirrored = torch.rand(len(obs), generator=generator) < self.config.share
        return torch.where(mirrored[:, None, None, None], obs.flip(-1), obs)


def test_an_encoder_and_an_augmentation_from_outside_train_by_name(tmp_path: Path) -> None:
    ENCODERS.register("outside-pool")(Pool)
    AUGMENTATIONS.register("outside-flip")(Flip)
    settings = ("encoder.name=outside-pool", "encoder.side=3", "learner.augmentation.name=outside-flip")
    try:
        config = pamd.configure("toy", "dbc-det+pamd", scale="smoke", decisions=60, settings=settings)
        run = pamd.train(config, tmp_path)
        trained = pamd.load(run)
        assert isinstance(trained.representation.encoder.network, Pool)
        assert trained.config.encoder.options == PoolConfig(side=3)
        assert trained.config.learner.options.augmentation.options == FlipConfig()
    finally:
        ENCODERS.unregister("outside-pool")
        AUGMENTATIONS.unregister("outside-flip")
