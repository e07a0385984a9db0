"""MICo's diffuse distance (eq:mico_pair_distance): a state may have a positive distance to itself."""

from __future__ import annotations

import math
from typing import Literal

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
    angle: Literal["exact", "released"] = "exact"
    """How the angle is computed. "released": from a cosine of at most 1 - 1e-6, so that no angle is below 0.0014."""


@DISTANCES.register("mico")
class Mico(Distance[MicoConfig]):
    """(|z|^2 + |z'|^2) / 2 + beta * angle(z, z')."""

    Config = MicoConfig
    presets = {"paper": {}, "released": {"angle": "released"}}
    properties = Properties(self_zero=False)

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        angle = _exact_angle(z, z_prime) if self.config.angle == "exact" else _released_angle(z, z_prime)
        return (z.square().sum(-1) + z_prime.square().sum(-1)) / 2 + self.config.beta * angle

    def max_value(self, length: float) -> float:
        return length**2 + self.config.beta * math.pi


def _exact_angle(z: Tensor, z_prime: Tensor) -> Tensor:
    """Return the angles [...] of vectors [..., d], from |u - v| and |u + v| of the unit vectors u and v.

    They equal arctan2(sqrt(1 - cos^2), cos), but they are exact up to rounding, and their slope is bounded. The slope
    of the square root is unbounded at parallel and opposite vectors. The clamp handles two zero vectors.
    """
    u, v = F.normalize(z, dim=-1), F.normalize(z_prime, dim=-1)
    chord, antichord = (torch.linalg.vector_norm(x, dim=-1) for x in (u - v, u + v))
    return 2 * torch.atan2(chord, antichord.clamp_min(1e-12))


def _released_angle(z: Tensor, z_prime: Tensor) -> Tensor:
    """Return the angles [...] of vectors [..., d] with the released guards. Beyond the clamp, the slope is 0."""
    lengths = torch.linalg.vector_norm(z, dim=-1) * torch.linalg.vector_norm(z_prime, dim=-1)
    cos = ((z * z_prime).sum(-1) / (lengths + 1e-8)).clamp(-1 + 1e-6, 1 - 1e-6)
    return torch.atan2((1 - cos.square()).sqrt(), cos)
