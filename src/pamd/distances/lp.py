"""Fixed norms of the displacement: l1 and l2, and both at the scale of a form with trace 1."""

from __future__ import annotations

import torch
from torch import Tensor

from pamd.distances.base import DISTANCES, Distance, NoOptions, Properties

__all__ = ["L1", "L2", "L1Mean", "L2Unit"]


class _Norm(Distance[NoOptions]):
    """An abstract norm of order `order`, divided by d^`power`.

    The subgradient of vector_norm at 0 is 0, so z = z' needs no root guard.
    """

    Config = NoOptions
    properties = Properties(triangle=True)
    order: float
    power: float = 0.0

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(z - z_prime, ord=self.order, dim=-1)
        return norm / self._divisor

    def max_value(self, length: float) -> float:
        # The longest displacement is 2 * length. Its l1 norm is largest along a diagonal of the cube.
        return 2 * length * float(self.latent_dim ** (1 / self.order - 1 / 2)) / self._divisor

    @property
    def _divisor(self) -> float:
        return float(self.latent_dim**self.power)


@DISTANCES.register("l1")
class L1(_Norm):
    """The sum of |z - z'|."""

    order = 1.0


@DISTANCES.register("l1-mean")
class L1Mean(_Norm):
    """The mean of |z - z'| over the coordinates."""

    order, power = 1.0, 1.0


@DISTANCES.register("l2")
class L2(_Norm):
    """The Euclidean norm."""

    order = 2.0


@DISTANCES.register("l2-unit")
class L2Unit(_Norm):
    """sqrt(Delta^T (I/d) Delta): the isotropic form of trace 1, and therefore the control for `pamd`."""

    order, power = 2.0, 0.5
