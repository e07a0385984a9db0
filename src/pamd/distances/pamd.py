"""PAMD, the paper's distance: a network looks at the pair and predicts G's Cholesky factor."""

from __future__ import annotations

from torch import Tensor

from pamd.distances.base import DISTANCES
from pamd.distances.pairwise import both_orders, pair_network
from pamd.distances.quadratic import Form, PairConditionedConfig, QuadraticForm
from pamd.distances.triangular import packed_size, triangular_form

__all__ = ["Pamd"]


@DISTANCES.register("pamd")
class Pamd(QuadraticForm[PairConditionedConfig]):
    """sqrt(Delta^T G_tilde(z, z') Delta + epsilon) with G = L(z,z') L(z,z')^T + L(z',z) L(z',z)^T + lambda I."""

    Config = PairConditionedConfig

    def __init__(self, latent_dim: int, config: PairConditionedConfig) -> None:
        super().__init__(latent_dim, config)
        self.net = pair_network(latent_dim, config.hidden, packed_size(latent_dim))

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        pairs = z.shape[0]
        packed = both_orders(self.net, z, z_prime).flatten(0, 1)  # [2P, d(d+1)/2]
        quadratic, trace, L = triangular_form(
            packed, delta.repeat(2, 1), self.config.diagonal_epsilon, _in_both_orders(rows, pairs)
        )
        L = L.view(2, len(rows), self.latent_dim, self.latent_dim)

        def product(v: Tensor) -> Tensor:
            return (L @ (L.transpose(-1, -2) @ v)).sum(0)

        return Form(quadratic.view(2, pairs).sum(0), trace.view(2, pairs).sum(0), product)  # eq:symmetrize

    def _floats_per_pair(self) -> int:
        return 4 * self.latent_dim**2 + 4 * self.config.hidden


def _in_both_orders(rows: Tensor, pairs: int) -> Tensor:
    """Rows of the pairs among [2P] factors, first order then second."""
    return (rows + pairs * rows.new_tensor([[0], [1]])).flatten()
