"""Per-coordinate Huber: what released DBC-Det compares; it is not a norm, and returns one value per coordinate."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional as F

from pamd.distances.base import DISTANCES, Distance, Laws, NoOptions

__all__ = ["Coordinate"]


@DISTANCES.register("coordinate")
class Coordinate(Distance[NoOptions]):
    """Huber(z_k - z'_k) for each coordinate k, threshold 1: [P, d]."""

    Config = NoOptions
    laws = Laws()
    coordinate_wise = True

    def _measure(self, z: Tensor, z_prime: Tensor, penalised: bool, generator: Any) -> tuple[Tensor, None]:
        return F.smooth_l1_loss(z, z_prime, reduction="none"), None

    def largest(self, length: float) -> float:
        displacement = 2 * length
        return displacement - 0.5 if displacement >= 1 else displacement**2 / 2
