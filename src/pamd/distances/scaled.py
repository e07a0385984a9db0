"""PAMD with a learned scale. The trace fixes the size of the form, and one factor for all pairs scales the distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from pamd.distances.base import DISTANCES
from pamd.distances.pairwise import both_orders
from pamd.distances.pamd import PredictedForm, cholesky_factor
from pamd.distances.quadratic import PairConditionedConfig

__all__ = ["PamdScaled", "ScaledConfig"]


@dataclass(frozen=True)
class ScaledConfig(PairConditionedConfig):
    """The options of `pamd-scaled`: those of `pamd`, with a different default."""

    scale: Literal["fixed", "learned"] = "learned"
    """"learned": a positive factor in front of the root, one for all pairs. It starts at 1."""


@DISTANCES.register("pamd-scaled")
class PamdScaled(PredictedForm[ScaledConfig]):
    """`pamd` times a learned scale s > 0, so that its values are not bounded by the length of the latents."""

    Config = ScaledConfig

    def _metric(self, z: Tensor, z_prime: Tensor) -> Tensor:
        L = cholesky_factor(both_orders(self.net, z, z_prime), self.config.diagonal_epsilon)  # [2, P, d, d]
        return (L @ L.mT).sum(0)
