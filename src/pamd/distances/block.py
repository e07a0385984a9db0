"""PAMD with a block-diagonal Cholesky factor: the cost is linear in d for a fixed block."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pamd.distances.base import DISTANCES
from pamd.distances.pamd import PredictedForm, symmetrize
from pamd.distances.quadratic import PairConditionedConfig
from pamd.errors import ConfigError

__all__ = ["BlockConfig", "PamdBlock"]

_USUAL_BLOCK = 10


@dataclass(frozen=True)
class BlockConfig(PairConditionedConfig):
    """The options of `pamd-block`."""

    block: int | None = None
    """The size b of one block, a divisor of the latent dimension. None: the divisor nearest to 10."""


@DISTANCES.register("pamd-block")
class PamdBlock(PredictedForm[BlockConfig]):
    """`pamd` with L = diag(L_1, ..., L_{d/b}), where each L_k is a lower-triangular b x b matrix."""

    Config = BlockConfig

    def __init__(self, latent_dim: int, config: BlockConfig) -> None:
        super().__init__(latent_dim, config, self.resolve(config, latent_dim).block)

    @classmethod
    def resolve(cls, config: BlockConfig, latent_dim: int) -> BlockConfig:
        wanted = _USUAL_BLOCK if config.block is None else config.block
        divisors = [b for b in range(1, latent_dim + 1) if latent_dim % b == 0]
        nearest = min(divisors, key=lambda b: abs(b - wanted))
        if config.block not in (None, nearest):
            raise ConfigError(
                f"distance 'pamd-block': block {config.block} does not divide latent_dim {latent_dim};"
                f" nearest that does: {nearest}"
            )
        return replace(config, block=nearest)

    def _metric(self, z: Tensor, z_prime: Tensor) -> Tensor:
        G_k = symmetrize(self.factors(z, z_prime), self.factors(z_prime, z))  # [P, K, b, b]
        place = torch.eye(self.blocks, dtype=G_k.dtype, device=G_k.device)
        return torch.einsum("pkij,kl->pkilj", G_k, place).flatten(3, 4).flatten(1, 2)
