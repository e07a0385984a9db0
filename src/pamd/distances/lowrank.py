"""PAMD with a diagonal plus rank-r factor: the cost is linear in d for a fixed rank."""

from __future__ import annotations

import torch
from torch import Tensor

from pamd.distances.base import DISTANCES
from pamd.distances.pairwise import pair_network, pair_outputs, rehu
from pamd.distances.pamd import QuadraticForm
from pamd.distances.quadratic import Form, PairConditionedConfig
from pamd.errors import ConfigError
from pamd.schema import Count, record


@record
class LowRankConfig(PairConditionedConfig):
    """The options of `pamd-lowrank`."""

    rank: Count = 4
    """The number of columns of U, at most the latent dimension."""


@DISTANCES.register("pamd-lowrank")
class PamdLowRank(QuadraticForm[LowRankConfig]):
    """`pamd` with L = [diag(D), U]: G = D^2 + U U^T, with positive D [d] and U [d, r]."""

    Config = LowRankConfig

    def __init__(self, latent_dim: int, config: LowRankConfig) -> None:
        super().__init__(latent_dim, config)
        self.net = pair_network(latent_dim, config.hidden, latent_dim * (1 + config.rank), config.frozen)

    @classmethod
    def resolve(cls, config: LowRankConfig, latent_dim: int) -> LowRankConfig:
        if not 1 <= config.rank <= latent_dim:
            raise ConfigError(
                f"distance 'pamd-lowrank': rank must be between 1 and latent_dim {latent_dim}, got {config.rank}"
            )
        return config

    def rehu_inputs(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return pair_outputs(self.net, z, z_prime)[..., : self.latent_dim]

    def _factors(self, z: Tensor, z_prime: Tensor) -> tuple[Tensor, Tensor]:
        """Return D [2, P, d] and U^T [2, P, r, d] for both input orders."""
        d = self.latent_dim
        output = pair_outputs(self.net, z, z_prime)  # [2, P, d (1 + r)]
        D = rehu(output[..., :d]) + self.config.diagonal_epsilon
        return D, output[..., d:].reshape(2, z.shape[0], self.config.rank, d)

    def _metric(self, z: Tensor, z_prime: Tensor) -> Tensor:
        D, U_T = self._factors(z, z_prime)
        return (torch.diag_embed(D.square()) + U_T.mT @ U_T).sum(0)

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        D, U_T = self._factors(z, z_prime)
        quadratic = (D * delta).square().sum((0, 2)) + (U_T @ delta[:, :, None]).square().sum((0, 2, 3))
        trace = D.square().sum((0, 2)) + U_T.square().sum((0, 2, 3))

        def product(v: Tensor) -> Tensor:
            some = U_T[:, rows]
            return (D[:, rows].square()[..., None] * v + some.transpose(-1, -2) @ (some @ v)).sum(0)

        return Form(quadratic, trace, product)

    def _floats_per_pair(self) -> int:
        return 4 * self.latent_dim * (1 + self.config.rank) + 4 * self.config.hidden
