"""The denoising factor: how well a distance ignores irrelevant input, such as a background or noise."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pamd.distances import Distance, distance
from pamd.errors import ShapeError
from pamd.representation.representation import Representation

__all__ = ["denoising_factor", "denoising_factors"]


@torch.no_grad()
def denoising_factor(distance: Distance[Any], z: Tensor, z_other: Tensor) -> float:
    """Return (neg - pos) / (neg + pos) for the same S states under two backgrounds. z, z_other: [S, d].

    pos is the mean distance of a state to itself under the other background. neg is its mean distance to the other
    states under that background. 1: the background has no effect. 0: it has as much effect as the state. Negative: it
    has more effect than the state.
    """
    if z.shape != z_other.shape or z.ndim != 2 or len(z) < 2:
        shapes = f"{list(z.shape)} and {list(z_other.shape)}"
        raise ShapeError(f"denoising_factor requires [S, d] twice, S >= 2, got {shapes}")
    between = distance.all_pairs(z, z_other).double()
    same = between.diagonal()
    pos, neg = same.mean(), (between.sum() - same.sum()) / (between.numel() - len(same))
    total = float(neg + pos)
    return float(neg - pos) / total if total != 0 else 0.0


@torch.no_grad()
def denoising_factors(representation: Representation, obs: Tensor, obs_other: Tensor) -> dict[str, float]:
    """Return the factor of the same S states under two draws of noise, for l2 and for the method's own distance.

    obs, obs_other: [S, ...]
    """
    z, z_other = representation.encode(obs), representation.encode(obs_other)
    plain = distance("l2", latent_dim=z.shape[1])
    factors = {"denoising_l2": denoising_factor(plain, z, z_other)}
    if representation.distance is not None:
        factors["denoising"] = denoising_factor(representation.distance, z, z_other)
    return factors
