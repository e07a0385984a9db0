"""The textbook construction of the quadratic-form distances: every matrix formed, one pass per input order.

The yardstick of `pamd bench head` and the reference of the tests; it shares only weights with the real thing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pamd.distances import Distance
from pamd.distances.pamd import Pamd
from pamd.distances.quadratic import PairConditionedConfig

__all__ = ["DensePamd", "dense_factor", "dense_matrix", "dense_measure"]


def dense_measure(distance: Distance[Any], z: Tensor, z_prime: Tensor) -> tuple[Tensor, Tensor]:
    """The value [P] and the exact penalty [] of a quadratic-form distance, by forming G_tilde [P, d, d]."""
    c, d = distance.config, distance.latent_dim
    G_bar = dense_matrix(distance, z, z_prime)
    trace = G_bar.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
    G_tilde = G_bar / (trace + c.trace_epsilon)
    used = G_bar / ((trace + c.trace_epsilon).detach() if c.trace_detached else trace + c.trace_epsilon)
    delta = z - z_prime
    q = torch.einsum("pi,pij,pj->p", delta, used if c.trace_normalised else G_bar, delta)
    value = torch.sqrt(q + c.root_epsilon if c.root == "add" else q.clamp_min(c.root_epsilon))
    deviation = (G_tilde - torch.eye(d, dtype=z.dtype) / d).square()
    anisotropy = deviation.sum((1, 2)).mean() if c.aux_norm == "sum" else deviation.mean()
    return value, -c.aux_weight * anisotropy


def dense_matrix(distance: Distance[Any], z: Tensor, z_prime: Tensor) -> Tensor:
    """G_bar = L(z,z') L(z,z')^T + L(z',z) L(z',z)^T + lambda I -> [P, d, d]."""
    eye = torch.eye(distance.latent_dim, dtype=z.dtype)
    L, L_swapped = dense_factor(distance, z, z_prime), dense_factor(distance, z_prime, z)
    return L @ L.mT + L_swapped @ L_swapped.mT + (distance.config.ridge or 0.0) * eye


def dense_factor(distance: Distance[Any], z: Tensor, z_prime: Tensor) -> Tensor:
    """L(z, z') of `pamd`: [P, d, d]."""
    d = distance.latent_dim
    net: Any = distance.net
    output: Tensor = net(torch.cat([z, z_prime], dim=-1))
    row, column = torch.tril_indices(d, d)
    L = output.new_zeros(len(z), d, d)
    L[:, row, column] = output
    diagonal = L.diagonal(dim1=-2, dim2=-1)
    positive = torch.where(diagonal >= 1, diagonal - 0.5, diagonal.clamp_min(0).square() / 2)
    return L.tril(-1) + torch.diag_embed(positive + distance.config.diagonal_epsilon)


class DensePamd(Distance[PairConditionedConfig]):
    """`pamd` with its own weights, measured the textbook way; for the yardstick alone, so not registered."""

    Config = PairConditionedConfig

    def __init__(self, like: Pamd) -> None:
        super().__init__(like.latent_dim, like.config)
        self.net = like.net

    def _measure(
        self, z: Tensor, z_prime: Tensor, penalised: bool, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor | None]:
        value, penalty = dense_measure(self, z, z_prime)
        return value, penalty if penalised else None
