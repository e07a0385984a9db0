"""PAMD with a block-diagonal Cholesky factor: the cost is linear in d for a fixed block."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from pamd.distances.base import DISTANCES
from pamd.distances.packed import floats_per_pair, packed_size
from pamd.distances.pairwise import both_orders, pair_network
from pamd.distances.pamd import QuadraticForm, diagonal_of_packed, predicted_factors, predicted_form, symmetrize
from pamd.distances.quadratic import Form, PairConditionedConfig
from pamd.errors import ConfigError
from pamd.schema import Count, record

_USUAL_BLOCK = 10


@record
class BlockConfig(PairConditionedConfig):
    """The options of `pamd-block`."""

    block: Count | None = None
    """The size b of one block, a divisor of the latent dimension. None: the divisor nearest to 10."""


@DISTANCES.register("pamd-block")
class PamdBlock(QuadraticForm[BlockConfig]):
    """`pamd` with L = diag(L_1, ..., L_{d/b}), where each L_k is a lower-triangular b x b matrix."""

    Config = BlockConfig

    def __init__(self, latent_dim: int, config: BlockConfig) -> None:
        super().__init__(latent_dim, config)
        self.block = self.config.block or latent_dim
        outputs = latent_dim // self.block * packed_size(self.block)
        self.net = pair_network(latent_dim, config.hidden, outputs, config.frozen)

    @classmethod
    def resolve(cls, config: BlockConfig, latent_dim: int) -> BlockConfig:
        size = _USUAL_BLOCK if config.block is None else config.block
        divisors = [b for b in range(1, latent_dim + 1) if latent_dim % b == 0]
        nearest = min(divisors, key=lambda b: abs(b - size))
        if config.block not in (None, nearest):
            raise ConfigError(
                f"distance 'pamd-block': block {config.block} does not divide latent_dim {latent_dim};"
                f" nearest that does: {nearest}"
            )
        return replace(config, block=nearest)

    def rehu_inputs(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return diagonal_of_packed(both_orders(self.net, z, z_prime), self.block)

    def _metric(self, z: Tensor, z_prime: Tensor) -> Tensor:
        both = (z, z_prime), (z_prime, z)
        L, L_swapped = (predicted_factors(self.net, *pair, self.block, self.config.diagonal_epsilon) for pair in both)
        G_k = symmetrize(L, L_swapped)  # [P, K, b, b]
        diagonal = torch.eye(G_k.shape[1], dtype=G_k.dtype, device=G_k.device)
        return torch.einsum("pkij,kl->pkilj", G_k, diagonal).flatten(3, 4).flatten(1, 2)

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        return predicted_form(self.net, z, z_prime, delta, rows, self.block, self.config.diagonal_epsilon)

    def _floats_per_pair(self) -> int:
        return floats_per_pair(self.latent_dim, self.block) + 4 * self.config.hidden
