"""Fixed norms: l1 and l2 of the displacement."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pamd.distances.base import DISTANCES, Distance, Laws, NoOptions

__all__ = ["L1", "L2"]


class _Norm(Distance[NoOptions]):
    """Abstract: the norm of order `order`. vector_norm's subgradient at 0 is 0, so z = z' needs no guard."""

    Config = NoOptions
    laws = Laws(triangle=True)
    order: float

    def _measure(self, z: Tensor, z_prime: Tensor, penalised: bool, generator: Any) -> tuple[Tensor, None]:
        return torch.linalg.vector_norm(z - z_prime, ord=self.order, dim=-1), None

    def largest(self, length: float) -> float:
        # The longest displacement is 2 * length; its l1 norm is longest along a diagonal of the cube.
        return 2 * length * float(self.latent_dim ** (1 / self.order - 1 / 2))

    def _all_pairs(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return pairwise_norm(z, z_prime, self.order)


@DISTANCES.register("l1")
class L1(_Norm):
    """Sum of |z - z'|."""

    order = 1.0


@DISTANCES.register("l2")
class L2(_Norm):
    """Euclidean."""

    order = 2.0


def pairwise_norm(z: Tensor, z_prime: Tensor, order: float = 2.0) -> Tensor:
    """Norms of all differences. z: [B, d], z_prime: [C, d] -> [B, C].

    The Gram-matrix form is not used: it loses the small distances, and a state's distance to itself, to cancellation.
    """
    if z.dtype in (torch.bfloat16, torch.float16):  # cdist has no half-precision kernel on the CPU
        return pairwise_norm(z.float(), z_prime.float(), order).to(z.dtype)
    return torch.cdist(z, z_prime, p=order, compute_mode="donot_use_mm_for_euclid_dist")
