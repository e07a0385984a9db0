"""Pixels to latents: convolutions, which actor and critic share, and a head of each one's own."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.errors import ConfigError
from pamd.nets.init import initialise

__all__ = ["Convolutions", "Encoder", "LatentHead", "LatentSpace"]

LatentSpace = Literal["layernorm", "sphere"]


class Convolutions(nn.Module):
    """[B, C, H, W] uint8 -> flat features [B, F]: kernel 3, one layer per stride, ReLU after each."""

    def __init__(self, channels: int, size: int, filters: int, strides: tuple[int, ...]) -> None:
        super().__init__()
        sides = [size]
        for stride in strides:
            sides.append((sides[-1] - 3) // stride + 1)
        if sides[-1] < 1:
            raise ConfigError(f"an image of {size} x {size} is too small for strides {strides}: sides {sides}")
        inputs = (channels, *[filters] * (len(strides) - 1))
        self.layers = nn.ModuleList(
            nn.Conv2d(n, filters, kernel_size=3, stride=stride) for n, stride in zip(inputs, strides, strict=True)
        )
        self.features = filters * sides[-1] ** 2
        initialise(self)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, obs: Tensor) -> Tensor:
        """obs: [B, C, H, W], uint8 or float already scaled to [0, 1] -> [B, F]."""
        x = obs.to(torch.float32, memory_format=torch.channels_last)
        x = x.div_(255) if obs.dtype == torch.uint8 else x
        for layer in self.layers:
            x = F.relu_(layer(x))
        # Channels last is twice as fast on a CPU; flattened in that order, no copy is made.
        return x.permute(0, 2, 3, 1).flatten(1)


class LatentHead(nn.Module):
    """Features [B, F] -> latents [B, d]: linear, then LayerNorm or the unit sphere."""

    def __init__(self, features: int, latent_dim: int, space: LatentSpace) -> None:
        super().__init__()
        self.linear = nn.Linear(features, latent_dim)
        self.norm = nn.LayerNorm(latent_dim) if space == "layernorm" else None
        initialise(self)

    def forward(self, features: Tensor) -> Tensor:
        """[B, F] -> [B, d]"""
        projected: Tensor = self.linear(features)
        return F.normalize(projected, dim=-1) if self.norm is None else self.norm(projected)


class Encoder(nn.Module):
    """Convolutions and the critic's head: the encoder that the metric shapes."""

    def __init__(self, convolutions: Convolutions, latent_dim: int, space: LatentSpace) -> None:
        super().__init__()
        self.convolutions = convolutions
        self.head = LatentHead(convolutions.features, latent_dim, space)

    def forward(self, obs: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, d]"""
        latents: Tensor = self.head(self.convolutions(obs))
        return latents
