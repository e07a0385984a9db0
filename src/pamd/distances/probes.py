"""Random draws for the estimate of the auxiliary term (docs/auxiliary-term.md)."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["choose_pairs", "sign_vectors"]


def choose_pairs(count: int, wanted: int | None, device: torch.device, generator: torch.Generator | None) -> Tensor:
    """Draw `wanted` distinct pairs out of `count`, or all of them -> [m]."""
    if wanted is None or wanted >= count:
        return torch.arange(count, device=device)
    drawn_on = generator.device if generator is not None else device
    return torch.randperm(count, generator=generator, device=drawn_on)[:wanted].to(device)


def sign_vectors(pairs: int, d: int, probes: int | None, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw `probes` random sign vectors per pair -> [m, d, probes]. None returns the unit vectors, which are exact."""
    if probes is None:
        return torch.eye(d, dtype=like.dtype, device=like.device).expand(pairs, d, d)
    drawn_on = generator.device if generator is not None else like.device
    coin = torch.randint(0, 2, (pairs, d, probes), generator=generator, device=drawn_on)
    return (2 * coin - 1).to(like)
