"""PAMD with a learned scale. The trace fixes the size of the form, and one factor for all pairs scales the distance."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from pamd.distances.base import DISTANCES
from pamd.distances.packed import floats_per_pair, packed_size
from pamd.distances.pairwise import pair_network, pair_outputs
from pamd.distances.pamd import QuadraticForm, cholesky_factor, diagonal_of_packed, predicted_form, symmetrize
from pamd.distances.quadratic import Form, PairConditionedConfig
from pamd.schema import record


@record
class ScaledConfig(PairConditionedConfig):
    """The options of `pamd-scaled`: those of `pamd`, with a different default."""

    scale: Literal["fixed", "learned"] = "learned"
    """"learned": a positive factor in front of the root, one for all pairs. It starts at 1."""


@DISTANCES.register("pamd-scaled")
class PamdScaled(QuadraticForm[ScaledConfig]):
    """`pamd` times a learned scale s > 0, so that its values are not bounded by the length of the latents."""

    Config = ScaledConfig

    def __init__(self, latent_dim: int, config: ScaledConfig) -> None:
        super().__init__(latent_dim, config)
        self.net = pair_network(latent_dim, config.hidden, packed_size(latent_dim), config.frozen)

    def rehu_inputs(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return diagonal_of_packed(pair_outputs(self.net, z, z_prime), self.latent_dim)

    def _metric(self, z: Tensor, z_prime: Tensor) -> Tensor:
        L = cholesky_factor(pair_outputs(self.net, z, z_prime), self.config.diagonal_epsilon)  # [2, P, d, d]
        return symmetrize(*L)

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        return predicted_form(self.net, z, z_prime, delta, rows, self.latent_dim, self.config.diagonal_epsilon)

    def _floats_per_pair(self) -> int:
        return floats_per_pair(self.latent_dim, self.latent_dim) + 4 * self.config.hidden
