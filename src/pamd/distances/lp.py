"""Fixed norms of the displacement: l1 and l2, and both at the scale of a form with trace 1.

The subgradient of vector_norm at 0 is 0, so z = z' needs no root guard. The longest displacement of latents of length
r is 2 r. Its l1 norm is largest along a diagonal of the cube.
"""

from __future__ import annotations

import math

from torch import Tensor
from torch.linalg import vector_norm

from pamd.distances.base import DISTANCES, Distance, NoOptions, Properties


@DISTANCES.register("l1")
class L1(Distance[NoOptions]):
    """The sum of |z - z'|."""

    Config = NoOptions
    properties = Properties(triangle=True)

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        norm: Tensor = vector_norm(z - z_prime, ord=1, dim=-1)
        return norm

    def max_value(self, length: float) -> float:
        return 2 * length * math.sqrt(self.latent_dim)


@DISTANCES.register("l1-mean")
class L1Mean(Distance[NoOptions]):
    """The mean of |z - z'| over the coordinates."""

    Config = NoOptions
    properties = Properties(triangle=True)

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        norm: Tensor = vector_norm(z - z_prime, ord=1, dim=-1)
        return norm / self.latent_dim

    def max_value(self, length: float) -> float:
        return 2 * length / math.sqrt(self.latent_dim)


@DISTANCES.register("l2")
class L2(Distance[NoOptions]):
    """The Euclidean norm."""

    Config = NoOptions
    properties = Properties(triangle=True)

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        norm: Tensor = vector_norm(z - z_prime, dim=-1)
        return norm

    def max_value(self, length: float) -> float:
        return 2 * length


@DISTANCES.register("l2-unit")
class L2Unit(Distance[NoOptions]):
    """sqrt(Delta^T (I/d) Delta): the isotropic form of trace 1, and therefore the control for `pamd`."""

    Config = NoOptions
    properties = Properties(triangle=True)

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        norm: Tensor = vector_norm(z - z_prime, dim=-1)
        return norm / math.sqrt(self.latent_dim)

    def max_value(self, length: float) -> float:
        return 2 * length / math.sqrt(self.latent_dim)
