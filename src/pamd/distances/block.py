"""PAMD with a block-diagonal Cholesky factor: cost linear in d for a fixed block."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pamd.distances.base import DISTANCES
from pamd.distances.pairwise import both_orders, pair_network
from pamd.distances.quadratic import Form, PairConditionedConfig, QuadraticForm
from pamd.distances.triangular import packed_size, triangular_form
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
        pairs, b = z.shape[0], self.config.block
        packed = both_orders(self.net, z, z_prime).view(2 * pairs * self.blocks, packed_size(b))  # [2 P d/b, b(b+1)/2]
        pieces = delta.view(1, pairs, self.blocks, b).expand(2, -1, -1, -1).reshape(len(packed), b)
        # Factors lie as [2, P, d/b]; those of pair p are at (o P + p) d/b + k.
        order = rows.new_tensor([0, pairs])[:, None, None]
        wanted = (order + rows[:, None]) * self.blocks + torch.arange(self.blocks, device=rows.device)
        quadratic, trace, L = triangular_form(packed, pieces, self.config.diagonal_epsilon, wanted.flatten())
        L = L.view(2, len(rows), self.blocks, b, b)

        def product(v: Tensor) -> Tensor:
            split = v.reshape(len(v), self.blocks, b, -1)
            return (L @ (L.transpose(-1, -2) @ split)).sum(0).flatten(1, 2)

        shape = (2, pairs, self.blocks)
        return Form(quadratic.view(shape).sum((0, 2)), trace.view(shape).sum((0, 2)), product)

    def _floats_per_pair(self) -> int:
        return 4 * self.latent_dim * (self.config.block + 1) + 4 * self.config.hidden
