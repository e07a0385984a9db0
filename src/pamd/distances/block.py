"""PAMD with a block-diagonal Cholesky factor: the cost is linear in d for a fixed block."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from pamd.distances.base import DISTANCES
from pamd.distances.packed import floats_per_pair, packed_size
from pamd.distances.pairwise import pair_network, pair_outputs
from pamd.distances.pamd import QuadraticForm, diagonal_of_packed, predicted_factors, predicted_form, symmetrize
from pamd.distances.quadratic import Form, PairConditionedConfig
from pamd.errors import ConfigError
from pamd.schema import Count, record

_PREFERRED_BLOCK = 10


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
        assert self.config.block is not None  # `resolve` sets it
        self.block = self.config.block
        outputs = latent_dim // self.block * packed_size(self.block)
        self.net = pair_network(latent_dim, config.hidden, outputs, config.frozen)

    @classmethod
    def resolve(cls, config: BlockConfig, latent_dim: int) -> BlockConfig:
        preferred = _PREFERRED_BLOCK if config.block is None else config.block
        divisors = [b for b in range(1, latent_dim + 1) if latent_dim % b == 0]
        nearest = min(divisors, key=lambda b: abs(b - preferred))
        if config.block not in (None, nearest):
            raise ConfigError(
                f"distance 'pamd-block': block {config.block} does not divide latent_dim {latent_dim};"
                f" nearest that does: {nearest}"
            )
        return replace(config, block=nearest)

    def rehu_inputs(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return diagonal_of_packed(pair_outputs(self.net, z, z_prime), self.block)

    def _factors(self, z: Tensor, z_prime: Tensor) -> Tensor:
        """Return L_k(z, z') [P, K, b, b] for the K = d/b blocks."""
        return predicted_factors(self.net, z, z_prime, self.block, self.config.diagonal_epsilon)

    def _metric(self, z: Tensor, z_prime: Tensor) -> Tensor:
        G_k = symmetrize(self._factors(z, z_prime), self._factors(z_prime, z))  # [P, K, b, b]
        # The blocks of G [P, K, b, K, b] are G_k on the diagonal (k = l) and 0 elsewhere.
        same_block = torch.eye(G_k.shape[1], dtype=G_k.dtype, device=G_k.device)
        return torch.einsum("pkij,kl->pkilj", G_k, same_block).flatten(3, 4).flatten(1, 2)

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        return predicted_form(self.net, z, z_prime, delta, rows, self.block, self.config.diagonal_epsilon)

    def _floats_per_pair(self) -> int:
        return floats_per_pair(self.latent_dim, self.block) + 4 * self.config.hidden
