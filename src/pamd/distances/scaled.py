"""PAMD with a learned scale: the trace fixes the form's size, and one number for all pairs sets the distance's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from pamd.distances.base import DISTANCES
from pamd.distances.pairwise import both_orders, pair_network
from pamd.distances.pamd import QuadraticForm, cholesky_factor, predicted_form
from pamd.distances.quadratic import Form, PairConditionedConfig
from pamd.distances.triangular import floats_per_pair, packed_size

__all__ = ["PamdScaled", "ScaledConfig"]


@dataclass(frozen=True)
class ScaledConfig(PairConditionedConfig):
    """The options of `pamd-scaled`: those of `pamd`, with another default."""

    scale: Literal["fixed", "learned"] = "learned"
    """"learned": a positive factor in front of the root, one for all pairs. It starts at 1."""


@DISTANCES.register("pamd-scaled")
class PamdScaled(QuadraticForm[ScaledConfig]):
    """`pamd` times a learned scale s > 0: its reach is not bounded by the latents."""

    Config = ScaledConfig

    def __init__(self, latent_dim: int, config: ScaledConfig) -> None:
        super().__init__(latent_dim, config)
        self.net = pair_network(latent_dim, config.hidden, packed_size(latent_dim))

    def _metric(self, z: Tensor, z_prime: Tensor) -> Tensor:
        L = cholesky_factor(both_orders(self.net, z, z_prime), self.config.diagonal_epsilon)  # [2, P, d, d]
        return (L @ L.mT).sum(0)

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        return predicted_form(self.net, z, z_prime, delta[:, None], self.config.diagonal_epsilon, rows)

    def _floats_per_pair(self) -> int:
        return floats_per_pair(self.latent_dim, self.latent_dim) + 4 * self.config.hidden
