"""The ball: latents long enough for every target of the operator, and no longer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["SMALLEST", "Ball"]

SMALLEST = 1.0
"""The least radius that rewards give. Where no two rewards differ yet, latents must still be told apart."""


class Ball(nn.Module):
    """z / max(|z| / radius, 1), Euclidean: [..., d] -> [..., d].

    The radius is fixed, or `scale` times the range of the rewards seen so far. The range is part of the state.
    """

    low: Tensor
    high: Tensor

    def __init__(self, *, radius: float | None = None, scale: float = 1.0) -> None:
        super().__init__()
        self.fixed, self.scale = radius, scale
        self.register_buffer("low", torch.tensor(float("inf"), dtype=torch.float64))
        self.register_buffer("high", torch.tensor(float("-inf"), dtype=torch.float64))

    @property
    def radius(self) -> Tensor:
        """[]: the length that no latent exceeds."""
        if self.fixed is not None:
            return torch.full_like(self.low, self.fixed)
        return (self.scale * (self.high - self.low)).clamp_min(SMALLEST)

    @torch.no_grad()
    def observe(self, reward: Tensor) -> None:
        """Widen the range to the rewards [B]. The radius never shrinks."""
        self.low.copy_(torch.minimum(self.low, reward.min()))
        self.high.copy_(torch.maximum(self.high, reward.max()))

    def forward(self, x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        inside: Tensor = x / (length / self.radius.to(x.dtype)).clamp_min(1.0)
        return inside

    def extra_repr(self) -> str:
        return f"radius={float(self.radius):g}, fixed={self.fixed is not None}"
