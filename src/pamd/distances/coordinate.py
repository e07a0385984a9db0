"""The per-coordinate Huber comparison of the released DBC-Det. It is not a norm: it has one value per coordinate."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from pamd.distances.base import DISTANCES, Distance, NoOptions, Properties


@DISTANCES.register("coordinate")
class Coordinate(Distance[NoOptions]):
    """Huber(z_k - z'_k) for each coordinate k, with threshold 1: [P, d]."""

    Config = NoOptions
    properties = Properties()
    coordinate_wise = True

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return F.smooth_l1_loss(z, z_prime, reduction="none")

    def max_value(self, length: float) -> float:
        displacement = 2 * length
        return displacement - 0.5 if displacement >= 1 else displacement**2 / 2
