"""Diagonal Mahalanobis distances, the paper's ablations: one global diagonal, or one predicted per pair."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pamd.distances.base import DISTANCES, Properties
from pamd.distances.pairwise import pair_network, pair_outputs, rehu
from pamd.distances.pamd import QuadraticForm
from pamd.distances.quadratic import Form, PairConditionedConfig, QuadraticConfig


@DISTANCES.register("diagonal")
class Diagonal(QuadraticForm[QuadraticConfig]):
    """G = diag(ReHU(w) + epsilon)^2 + lambda I with one learned w [d] for all pairs, initially isotropic."""

    Config = QuadraticConfig
    # A global weighted norm. The root guard preserves the triangle inequality (x -> sqrt(x^2 + e) is subadditive).
    properties = Properties(triangle=True)

    def __init__(self, latent_dim: int, config: QuadraticConfig) -> None:
        super().__init__(latent_dim, config)
        self.weight = nn.Parameter(torch.ones(latent_dim))

    def rehu_inputs(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return self.weight.expand(2, len(z), -1)

    def _diagonal(self, dtype: torch.dtype) -> Tensor:
        """Return the diagonal of G: [d]."""
        return (rehu(self.weight.to(dtype)) + self.config.diagonal_epsilon).square()

    def _metric(self, z: Tensor, z_prime: Tensor) -> Tensor:
        dtype = torch.promote_types(z.dtype, torch.float32)
        return torch.diag_embed(self._diagonal(dtype)).expand(z.shape[0], -1, -1)

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        G = self._diagonal(delta.dtype)
        return Form((G * delta.square()).sum(-1), G.sum().expand(delta.shape[0]), lambda v: G[:, None] * v)


@DISTANCES.register("adaptive-diagonal")
class AdaptiveDiagonal(QuadraticForm[PairConditionedConfig]):
    """`pamd` without the off-diagonal entries of L."""

    Config = PairConditionedConfig

    def __init__(self, latent_dim: int, config: PairConditionedConfig) -> None:
        super().__init__(latent_dim, config)
        self.net = pair_network(latent_dim, config.hidden, latent_dim, config.frozen)

    def rehu_inputs(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return pair_outputs(self.net, z, z_prime)

    def _diagonal(self, z: Tensor, z_prime: Tensor) -> Tensor:
        """Return the diagonal of G: [P, d]."""
        L = rehu(pair_outputs(self.net, z, z_prime)) + self.config.diagonal_epsilon  # [2, P, d]
        return L.square().sum(0)

    def _metric(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return torch.diag_embed(self._diagonal(z, z_prime))

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        G = self._diagonal(z, z_prime)
        return Form((G * delta.square()).sum(-1), G.sum(-1), lambda v: G[rows][..., None] * v)
