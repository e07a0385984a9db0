"""PAMD computed by the textbook formula, which builds every matrix: the reference implementation for benchmarks."""

from __future__ import annotations

import torch
from torch import Tensor

from pamd.distances import Distance
from pamd.distances.pamd import Pamd
from pamd.distances.quadratic import PairConditionedConfig

__all__ = ["DensePamd"]


class DensePamd(Distance[PairConditionedConfig]):
    """A copy of a `pamd` distance that computes values with `Pamd.textbook`. It is not registered."""

    Config = PairConditionedConfig

    def __init__(self, like: Pamd) -> None:
        super().__init__(like.latent_dim, like.config)
        self.like = like

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return self.like.textbook(z, z_prime)[0]

    def _value_and_penalty(
        self, z: Tensor, z_prime: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor | None]:
        return self.like.textbook(z, z_prime)
