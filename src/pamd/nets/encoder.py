"""Pixels to latents: convolutions, which actor and critic share, and a head of each one's own."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.errors import ConfigError
from pamd.nets.convolve import convolve
from pamd.nets.init import initialise

__all__ = ["Convolutions", "Encoder", "LatentHead", "LatentSpace", "as_pixels"]

LatentSpace = Literal["layernorm", "sphere"]


def as_pixels(obs: Tensor) -> Tensor:
    """uint8 [B, C, H, W] as floats in [0, 1], channels last; what is so already comes back as it is."""
    # Reordered as bytes and converted after: both at once take a fifth longer.
    x = obs.contiguous(memory_format=torch.channels_last).to(torch.get_default_dtype())
    return x.div_(255) if obs.dtype == torch.uint8 else x


class Convolutions(nn.Module):
    """[B, C, H, W] uint8 -> flat features [B, F]: kernel 3, one layer per stride, ReLU after each."""

    def __init__(self, channels: int, size: int, filters: int, strides: tuple[int, ...]) -> None:
        super().__init__()
        sides = [size]
        for stride in strides:
            sides.append((sides[-1] - 3) // stride + 1)
        if sides[-1] < 1:
            raise ConfigError(f"an image of {size} x {size} is too small for strides {strides}: sides {sides}")
        self.strides = tuple(strides)
        inputs = (channels, *[filters] * (len(strides) - 1))
        self.layers = nn.ModuleList(
            nn.Conv2d(n, filters, kernel_size=3, stride=stride) for n, stride in zip(inputs, strides, strict=True)
        )
        self.features = filters * sides[-1] ** 2
        initialise(self)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, obs: Tensor) -> Tensor:
        """obs: [B, C, H, W], uint8 or float already scaled to [0, 1] -> [B, F]."""
        x = convolve(as_pixels(obs), *self.weights_and_biases(), self.strides)
        # Channels last is twice as fast on a CPU; flattened in that order, no copy is made.
        return x.permute(0, 2, 3, 1).flatten(1)

    def weights_and_biases(self) -> tuple[list[Tensor], list[Tensor]]:
        """[O, C, 3, 3] and [O], one of each per layer."""
        layers = [layer for layer in self.layers if isinstance(layer, nn.Conv2d)]
        return [layer.weight for layer in layers], [layer.bias for layer in layers if layer.bias is not None]


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
