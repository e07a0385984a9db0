"""Pure functions on positive-definite matrices G_tilde [P, d, d]."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["anisotropy", "condition_number", "off_diagonal_share", "pair_variation", "spectrum"]


def spectrum(G: Tensor) -> Tensor:
    """Return the eigenvalues, largest first, with rounding errors set to 0. G: [P, d, d] -> [P, d]."""
    ascending: Tensor = torch.linalg.eigvalsh(G)
    rounding = G.shape[-1] * torch.finfo(G.dtype).eps * ascending[:, -1:]
    return torch.where(ascending > rounding, ascending, 0).flip(-1)


def condition_number(eigenvalues: Tensor) -> Tensor:
    """Return the largest over the smallest eigenvalue; infinity if the smallest is 0. [P, d] -> [P]."""
    return eigenvalues[:, 0] / eigenvalues[:, -1]


def off_diagonal_share(G: Tensor) -> Tensor:
    """Return the off-diagonal share of |G|_F^2; 0 if G only weights coordinates. [P, d, d] -> [P]."""
    total = G.square().sum((1, 2))
    return 1 - G.diagonal(dim1=1, dim2=2).square().sum(-1) / total


def anisotropy(G: Tensor) -> Tensor:
    """Return |G - I/d|_F, which the auxiliary term rewards; at most sqrt(1 - 1/d) for trace 1. [P, d, d] -> [P]."""
    d = G.shape[-1]
    distance: Tensor = torch.linalg.matrix_norm(G - torch.eye(d, dtype=G.dtype, device=G.device) / d)
    return distance


def pair_variation(G: Tensor) -> Tensor:
    """Return |G_p - mean G|_F / |mean G|_F; 0 if all pairs share one matrix. [P, d, d] -> [P]."""
    mean = G.mean(0)
    variation: Tensor = torch.linalg.matrix_norm(G - mean) / torch.linalg.matrix_norm(mean)
    return variation
