"""A stranger adds a part in one class and trains with it by name. Learners: tests/learners; distances: docs/howto."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pamd
from pamd.augmentations import AUGMENTATIONS, Augmentation
from pamd.cli.main import main
from pamd.distances import Distance
from pamd.encoders import ENCODERS, Encoder
from pamd.latents import BatchLatents
from pamd.operators import OPERATORS, Operator
from pamd.operators.base import OperatorConfig
from pamd.terms import TERMS, Term
from pamd.types import Batch, Latents, Loss, Pairs


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


@dataclass(frozen=True)
class InverseConfig:
    weight: float = 1.0
    """Weight of the loss."""


class Inverse(Term[InverseConfig]):
    """Predicts the action from a latent and the next one, which a target copy encodes."""

    Config = InverseConfig

    def __init__(self, config: InverseConfig, latent_dim: int, action_dim: int) -> None:
        super().__init__(config, latent_dim, action_dim)
        self.net = nn.Linear(2 * latent_dim, action_dim)

    @classmethod
    def copies(cls, config: InverseConfig) -> frozenset[Any]:
        return frozenset({"ema"})

    def loss(self, latents: BatchLatents, batch: Batch) -> Loss:
        predicted = self.net(torch.cat([latents.z, latents.latent("next_obs", "ema")], -1))
        loss = (predicted - batch.action).square().mean()
        return Loss(self.config.weight * loss, {"inverse_loss": loss.detach()})


class Occupancy(Operator[OperatorConfig]):
    """Reads an input of its own, which it computes from the batch: how bright the pictures are."""

    Config = OperatorConfig

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"z_next"})

    def _gap(self, latents: Latents, pairs: Pairs) -> Tensor:
        seen: Any = latents  # inside a representation: `MetricInputs`
        obs = seen.latents.batch.obs
        bright = seen.latents.once("brightness", lambda: obs.float().flatten(1).mean(1) / 255)
        return (bright[pairs.left] - bright[pairs.right]).abs()

    def _discrepancy(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        assert latents.z_next is not None
        return distance.between(latents.z_next, latents.z_next, pairs)


def test_a_term_from_outside_is_listed_added_by_a_setting_and_trains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    TERMS.register("outside-inverse")(Inverse)
    try:
        assert main(["list", "terms"]) == 0
        assert "outside-inverse: weight=1.0" in capsys.readouterr().out
        settings = ("method.outside-inverse={}", "method.outside-inverse.weight=0.5")
        config = pamd.configure("toy", "zp", scale="smoke", decisions=60, settings=settings)
        assert [part.name for part in config.method.terms] == ["transition", "outside-inverse"]
        run = pamd.train(config, tmp_path)
        assert '"inverse_loss"' in (run / "train.jsonl").read_text()
        rep = pamd.Representation(pamd.method("none", outside_inverse={}), encoder=nn.Linear(3, 50), action_dim=2)
        before = rep.terms["outside-inverse"].net.weight.clone()
        optimizer = torch.optim.Adam(rep.parameter_groups(), lr=1e-2)
        batch = torch.randn(8, 3), torch.rand(8, 2), torch.rand(8), torch.randn(8, 3)
        rep.losses(*batch).total.backward()
        optimizer.step()
        rep.update_targets()
        assert not torch.equal(rep.terms["outside-inverse"].net.weight, before)
    finally:
        TERMS.unregister("outside-inverse")


def test_an_operator_from_outside_computes_an_input_of_its_own(tmp_path: Path) -> None:
    OPERATORS.register("outside-occupancy")(Occupancy)
    try:
        settings = ("method.metric.operator.name=outside-occupancy",)
        config = pamd.configure("toy", "dbc-det+pamd", scale="smoke", decisions=60, settings=settings)
        run = pamd.train(config, tmp_path)
        assert '"target_mean"' in (run / "train.jsonl").read_text()
    finally:
        OPERATORS.unregister("outside-occupancy")
