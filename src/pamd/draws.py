"""Random numbers from an explicit generator.

A CPU generator gives the same numbers on every device. Without a generator, torch's global one draws.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["normal_like", "one_of"]


def normal_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Standard normal noise of the shape and on the device of x."""
    drawn_on = x.device if generator is None else generator.device
    return torch.randn(x.shape, generator=generator, device=drawn_on).to(x.device)


def one_of(count: int, generator: torch.Generator | None) -> int:
    """One of 0, ..., count - 1."""
    return int(torch.randint(count, (), generator=generator, device="cpu" if generator is None else generator.device))
