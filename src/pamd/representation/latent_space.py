"""Latent spaces: how an encoder's output is normalized, and how long a latent can be."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.methods import LatentSpace
from pamd.representation.ball import Ball

__all__ = ["Normalize"]


class Normalize(nn.Module):
    """Normalization [..., d] -> [..., d]: LayerNorm; LayerNorm then tanh; unit sphere; ball; or none ("free")."""

    def __init__(self, space: LatentSpace, latent_dim: int, ball: Ball | None = None) -> None:
        super().__init__()
        self.space, self.latent_dim = space, latent_dim
        self.norm = nn.LayerNorm(latent_dim) if space in ("layernorm", "tanh") else None
        self.ball = (ball or Ball()) if space == "ball" else None

    def forward(self, x: Tensor) -> Tensor:
        if self.space == "sphere":
            return F.normalize(x, dim=-1)
        if self.ball is not None:
            projected: Tensor = self.ball(x)
            return projected
        if self.norm is not None:
            x = self.norm(x)
        return torch.tanh(x) if self.space == "tanh" else x

    @torch.no_grad()
    def longest(self) -> float:
        """Return the length that no latent exceeds. With LayerNorm, it depends on the gain and the bias."""
        if self.space == "sphere":
            return 1.0
        if self.ball is not None:
            return float(self.ball.radius)
        if self.space == "tanh":
            return float(self.latent_dim**0.5)
        if self.norm is None:
            return float("inf")
        # A normalized vector has length at most sqrt(d). The bias cancels in differences, but not in MICo's norms.
        return float(self.norm.weight.abs().max() * self.latent_dim**0.5 + self.norm.bias.norm())

    def extra_repr(self) -> str:
        return self.space
