"""Where latents live: what is put on an encoder's output, and how long a latent can be there."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.methods import LatentSpace
from pamd.representation.ball import Ball

__all__ = ["Normalise"]


class Normalise(nn.Module):
    """[..., d] -> [..., d]: LayerNorm; LayerNorm then tanh; the unit sphere; a ball; or nothing ("free")."""

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
        """The length that no latent exceeds. Under LayerNorm gain and bias set it."""
        if self.space == "sphere":
            return 1.0
        if self.ball is not None:
            return float(self.ball.radius)
        if self.space == "tanh":
            return float(self.latent_dim**0.5)
        if self.norm is None:
            return float("inf")
        # A normalised vector has length sqrt(d) at most. Differences do not see the bias, but MICo's norms do.
        return float(self.norm.weight.abs().max() * self.latent_dim**0.5 + self.norm.bias.norm())

    def extra_repr(self) -> str:
        return self.space
