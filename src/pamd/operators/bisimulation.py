"""Bisimulation operators: the Wasserstein distance of next-state distributions (eq:bisim_operator, on-policy)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pamd.distances import Distance
from pamd.operators.base import OPERATORS, Operator, OperatorConfig
from pamd.schema import record
from pamd.types import Latents, Pairs


@record
class BisimulationConfig(OperatorConfig):
    """The options of `bisimulation`."""

    per_coordinate: bool = False
    """False: W2 of the two diagonal Gaussians, [P]. True: one W2 per coordinate, [P, d], as released."""


@OPERATORS.register("bisimulation")
class Bisimulation(Operator[BisimulationConfig]):
    """DBC: a Gaussian latent model and its closed-form W2, whose ground metric is Euclidean.

    It does not use the distance on the target side. `bisimulation-det` uses it and supports a learned distance.
    """

    Config = BisimulationConfig

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"next_mean", "next_std"})

    @property
    def coordinate_wise(self) -> bool:
        return self.config.per_coordinate

    def _discrepancy(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        assert latents.next_mean is not None
        assert latents.next_std is not None
        mean = latents.next_mean[pairs.left] - latents.next_mean[pairs.right]
        std = latents.next_std[pairs.left] - latents.next_std[pairs.right]
        per_coordinate = mean.square() + std.square()
        if self.config.per_coordinate:
            return per_coordinate.sqrt()
        return per_coordinate.sum(-1).sqrt()


@OPERATORS.register("bisimulation-det")
class BisimulationDet(Operator[OperatorConfig]):
    """DBC-Det: between point predictions, W1 is the distance itself."""

    Config = OperatorConfig

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"next_mean"})

    def _discrepancy(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        assert latents.next_mean is not None
        return distance.between(latents.next_mean, latents.next_mean, pairs)
