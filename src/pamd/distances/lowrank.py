"""PAMD with a diagonal plus rank-r factor: cost linear in d for a fixed rank."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pamd.distances.base import DISTANCES
from pamd.distances.pairwise import both_orders, pair_network, rehu
from pamd.distances.quadratic import Form, PairConditionedConfig, QuadraticForm
from pamd.errors import ConfigError

__all__ = ["LowRankConfig", "PamdLowRank"]


@dataclass(frozen=True)
class LowRankConfig(PairConditionedConfig):
    rank: int = 4


@DISTANCES.register("pamd-lowrank")
class PamdLowRank(QuadraticForm[LowRankConfig]):
    """As `pamd`, with L = [diag(D), U]: G = D^2 + U U^T, D positive [d], U [d, r]."""

    Config = LowRankConfig

    def __init__(self, latent_dim: int, config: LowRankConfig) -> None:
        super().__init__(latent_dim, config)
        if not 1 <= config.rank <= latent_dim:
            raise ConfigError(
                f"distance 'pamd-lowrank': rank must be between 1 and latent_dim {latent_dim}, got {config.rank}"
            )
        self.net = pair_network(latent_dim, config.hidden, latent_dim * (1 + config.rank))

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        d = self.latent_dim
        output = both_orders(self.net, z, z_prime)  # [2, P, d (1 + r)]
        D = rehu(output[..., :d]) + self.config.diagonal_epsilon
        U_T = output[..., d:].reshape(2, len(z), self.config.rank, d)
        quadratic = (D * delta).square().sum((0, 2)) + (U_T @ delta[:, :, None]).square().sum((0, 2, 3))
        trace = D.square().sum((0, 2)) + U_T.square().sum((0, 2, 3))

        def product(v: Tensor) -> Tensor:
            some = U_T[:, rows]
            return (D[:, rows].square()[..., None] * v + some.transpose(-1, -2) @ (some @ v)).sum(0)

        return Form(quadratic, trace, product)

    def _floats_per_pair(self) -> int:
        return 4 * self.latent_dim * (1 + self.config.rank) + 4 * self.config.hidden
