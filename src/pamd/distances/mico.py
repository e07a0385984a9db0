"""MICo's diffuse distance (eq:mico_pair_distance): a state may have a positive distance to itself."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from pamd.distances.base import DISTANCES, Distance, Properties
from pamd.schema import Positive, record


@record
class MicoConfig:
    """The options of `mico`."""

    beta: Positive = 0.1
    """The weight of the angle."""


@DISTANCES.register("mico")
class Mico(Distance[MicoConfig]):
    """(|z|^2 + |z'|^2) / 2 + beta * angle(z, z')."""

    Config = MicoConfig
    properties = Properties(self_zero=False)

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        u, v = F.normalize(z, dim=-1), F.normalize(z_prime, dim=-1)
        angle = _angle(torch.linalg.vector_norm(u - v, dim=-1), torch.linalg.vector_norm(u + v, dim=-1))
        return (z.square().sum(-1) + z_prime.square().sum(-1)) / 2 + self.config.beta * angle

    def max_value(self, length: float) -> float:
        return length**2 + self.config.beta * math.pi


def _angle(chord: Tensor, antichord: Tensor) -> Tensor:
    """Return the angle between unit vectors u, v from |u - v| and |u + v|.

    It equals arctan2(sqrt(1 - cos^2), cos), but it is exact up to rounding at every angle, and its slope is bounded.
    The slope of the square root is unbounded at parallel and opposite vectors. The clamp handles two zero vectors.
    """
    return 2 * torch.atan2(chord, antichord.clamp_min(1e-12))
