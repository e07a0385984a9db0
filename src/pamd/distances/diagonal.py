"""Diagonal Mahalanobis distances, the paper's ablations: one global diagonal, or one predicted per pair."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pamd.distances.base import DISTANCES, Laws
from pamd.distances.pairwise import both_orders, pair_network, rehu
from pamd.distances.quadratic import Form, PairConditionedConfig, QuadraticConfig, QuadraticForm

__all__ = ["AdaptiveDiagonal", "Diagonal"]


@DISTANCES.register("diagonal")
class Diagonal(QuadraticForm[QuadraticConfig]):
    """G = diag(ReHU(w) + epsilon)^2 + lambda I with one learned w [d] for all pairs; it starts isotropic."""

    Config = QuadraticConfig
    # A global weighted norm; the root guard keeps the triangle inequality (x -> sqrt(x^2 + e) is subadditive).
    laws = Laws(triangle=True)

    def __init__(self, latent_dim: int, config: QuadraticConfig) -> None:
        super().__init__(latent_dim, config)
        self.weight = nn.Parameter(torch.ones(latent_dim))

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        G = (rehu(self.weight.to(delta.dtype)) + self.config.diagonal_epsilon).square()
        return Form((G * delta.square()).sum(-1), G.sum().expand(len(delta)), lambda v: G[:, None] * v)


@DISTANCES.register("adaptive-diagonal")
class AdaptiveDiagonal(QuadraticForm[PairConditionedConfig]):
    """`pamd` without the off-diagonal entries of L."""

    Config = PairConditionedConfig

    def __init__(self, latent_dim: int, config: PairConditionedConfig) -> None:
        super().__init__(latent_dim, config)
        self.net = pair_network(latent_dim, config.hidden, latent_dim)

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        factor = rehu(both_orders(self.net, z, z_prime)) + self.config.diagonal_epsilon  # [2, P, d]
        G = factor.square().sum(0)
        return Form((G * delta.square()).sum(-1), G.sum(-1), lambda v: G[rows][..., None] * v)

    def _floats_per_pair(self) -> int:
        return 6 * self.latent_dim + 4 * self.config.hidden
