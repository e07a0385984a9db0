"""The independently-coupled operator of MICo and SimSR (eq:mico_operator, eq:simsr_operator)."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from pamd.distances import Distance
from pamd.operators.base import OPERATORS, Operator, OperatorConfig
from pamd.schema import record
from pamd.types import Latents, Pairs


@record
class IndependentConfig(OperatorConfig):
    """The options of `independent`."""

    next_latents: Literal["replay", "model"] = "replay"
    """The source of next latents: the sampled next states (MICo), or the latent model (SimSR)."""


@OPERATORS.register("independent")
class Independent(Operator[IndependentConfig]):
    """The operator of MICo and SimSR. One sample of each next state estimates the expectation over independent ones."""

    Config = IndependentConfig

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"z_next" if self.config.next_latents == "replay" else "next_sample"})

    def _discrepancy(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        z_next = latents.z_next if self.config.next_latents == "replay" else latents.next_sample
        assert z_next is not None
        return distance.between(z_next, z_next, pairs)
