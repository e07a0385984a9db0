"""PAMD with a block-diagonal Cholesky factor: cost linear in d for a fixed block."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pamd.distances.base import DISTANCES
from pamd.distances.pairwise import pair_network
from pamd.distances.quadratic import Form, PairConditionedConfig, QuadraticForm
from pamd.distances.triangular import floats_per_pair, packed_size, predicted_form
from pamd.errors import ConfigError

__all__ = ["BlockConfig", "PamdBlock"]


@dataclass(frozen=True)
class BlockConfig(PairConditionedConfig):
    block: int = 10
    """Size of one block; it must divide the latent dimension."""


@DISTANCES.register("pamd-block")
class PamdBlock(QuadraticForm[BlockConfig]):
    """As `pamd`, with L = diag(L_1, ..., L_{d/b}), each L_k lower-triangular b x b."""

    Config = BlockConfig

    def __init__(self, latent_dim: int, config: BlockConfig) -> None:
        super().__init__(latent_dim, config)
        if config.block < 1 or latent_dim % config.block:
            divisors = [b for b in range(1, latent_dim + 1) if latent_dim % b == 0]
            closest = min(divisors, key=lambda b: abs(b - config.block))
            raise ConfigError(
                f"distance 'pamd-block': block {config.block} does not divide latent_dim {latent_dim};"
                f" nearest that does: {closest}"
            )
        self.blocks = latent_dim // config.block
        self.net = pair_network(latent_dim, config.hidden, self.blocks * packed_size(config.block))

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        split = delta.view(len(delta), self.blocks, self.config.block)
        return predicted_form(self.net, z, z_prime, split, self.config.diagonal_epsilon, rows)

    def _floats_per_pair(self) -> int:
        return floats_per_pair(self.latent_dim, self.config.block) + 4 * self.config.hidden
