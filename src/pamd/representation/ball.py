"""The ball that bounds the length of latents. It is large enough for every target of the operator, and no larger."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from pamd.errors import ConfigError

__all__ = ["SMALLEST", "Ball"]

SMALLEST = 1.0
"""The smallest radius computed from rewards. Latents must be able to differ even if all rewards so far are equal."""


class Ball(nn.Module):
    """Projection into a ball, z / max(|z| / radius, 1) with the Euclidean norm: [..., d] -> [..., d].

    The radius is fixed, or half of what `bound` returns for the range of the rewards seen so far (at least `SMALLEST`).
    Half suffices, because two points of a ball are at most two radii apart. The range and the radius are part of the
    state.
    """

    low: Tensor
    high: Tensor
    radius: Tensor

    def __init__(self, *, radius: float | None = None, bound: Callable[[Any], Any] = abs) -> None:
        super().__init__()
        self.fixed, self.bound = radius, bound
        for name, value in (("low", math.inf), ("high", -math.inf), ("radius", radius or SMALLEST)):
            self.register_buffer(name, torch.tensor(value, dtype=torch.float64))

    @torch.no_grad()
    def observe(self, reward: Tensor) -> None:
        """Extend the range to include the rewards [B]. The radius never shrinks."""
        if torch._C._are_functorch_transforms_active():
            raise ConfigError(
                'latent space "ball" records the rewards in place, which torch.func does not allow; compute the'
                ' losses outside of torch.func, or use latent space "layernorm", "tanh" or "sphere"'
            )
        self.low.copy_(torch.minimum(self.low, reward.min()))
        self.high.copy_(torch.maximum(self.high, reward.max()))
        if self.fixed is None:
            # Use only tensors: a Python number would have to be read from the device at every update.
            half = torch.as_tensor(self.bound(self.high - self.low) / 2)
            self.radius.copy_(half.clamp_min(SMALLEST))

    def forward(self, x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        inside: Tensor = x / (length / self.radius.to(x.dtype)).clamp_min(1.0)
        return inside

    def extra_repr(self) -> str:
        return f"radius={float(self.radius):g}, fixed={self.fixed is not None}"
