"""SCR's diffuse distance (Chen et al. 2024): a state may have a positive distance to itself."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pamd.distances.base import DISTANCES, Distance, NoOptions, Properties


@DISTANCES.register("scr")
class Scr(Distance[NoOptions]):
    """sqrt(|z|^2 + |z'|^2 - z . z'). The distance of a state to itself is its length."""

    Config = NoOptions
    # Twice the square is |z|^2 + |z'|^2 + |z - z'|^2, so sqrt(2) times the value is the norm of (|z|, |z'|, |z - z'|).
    # For x, y, w: (|x|, |w|, |x - w|) <= (|x|, |y|, |x - y|) + (|y|, |w|, |y - w|) entry by entry, so the norms, too.
    properties = Properties(self_zero=False, triangle=True)

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        # The squares of z - z'/2 and of z' do not cancel, and the slope of the norm is 0 at z = z' = 0.
        parts = torch.cat([z - z_prime / 2, math.sqrt(0.75) * z_prime], dim=-1)
        norm: Tensor = torch.linalg.vector_norm(parts, dim=-1)
        return norm

    def max_value(self, length: float) -> float:
        return math.sqrt(3) * length
