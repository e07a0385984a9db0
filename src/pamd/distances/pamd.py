"""PAMD, the paper's distance: a network looks at the pair and predicts G's Cholesky factor."""

from __future__ import annotations

from torch import Tensor

from pamd.distances.base import DISTANCES
from pamd.distances.pairwise import pair_network
from pamd.distances.quadratic import Form, PairConditionedConfig, QuadraticForm
from pamd.distances.triangular import floats_per_pair, packed_size, predicted_form

__all__ = ["Pamd"]


@DISTANCES.register("pamd")
class Pamd(QuadraticForm[PairConditionedConfig]):
    """sqrt(Delta^T G_tilde(z, z') Delta + epsilon) with G = L(z,z') L(z,z')^T + L(z',z) L(z',z)^T + lambda I."""

    Config = PairConditionedConfig

    def __init__(self, latent_dim: int, config: PairConditionedConfig) -> None:
        super().__init__(latent_dim, config)
        self.net = pair_network(latent_dim, config.hidden, packed_size(latent_dim))

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        return predicted_form(self.net, z, z_prime, delta[:, None], self.config.diagonal_epsilon, rows)

    def _floats_per_pair(self) -> int:
        return floats_per_pair(self.latent_dim, self.latent_dim) + 4 * self.config.hidden
