"""The encoder of images: 3 x 3 convolutions, which actor and critic share, and a linear projection."""

from __future__ import annotations

import itertools
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.encoders.base import ENCODERS, Encoder
from pamd.errors import ConfigError, ShapeError
from pamd.initialization import Initialization, initialize
from pamd.schema import Count, record

ConvInput = Literal["frames", "differences"]
"""The input of the first layer: the color frames of a stack, or their differences."""


_COLORS = 3
"""Number of channels of a frame."""


@record
class ConvConfig:
    """One convolution per stride, each with a kernel of 3 and a ReLU."""

    filters: Count = 32
    """Number of channels of every layer."""
    strides: tuple[Count, ...] = (2, 1, 1, 1)
    """Stride of each layer. The number of strides is the depth."""
    init: Initialization = "orthogonal"
    """How the weights are initialized."""
    input: ConvInput = "frames"
    """"differences": the first layer reads the newest frame and the difference between each frame and the one before,
    so that motion is learned sooner."""

    def __post_init__(self) -> None:
        if not self.strides:
            raise ConfigError("encoder 'conv': strides must name at least one layer, got ()")


def as_pixels(obs: Tensor, dtype: torch.dtype) -> Tensor:
    """Return uint8 [B, C, H, W] as floats in [0, 1], channels last. Floats keep their values."""
    # Reordering bytes before converting them is a fifth faster than both at once. torch.func.vmap cannot reorder.
    ordered = obs if torch._C._are_functorch_transforms_active() else obs.contiguous(memory_format=torch.channels_last)
    x = ordered.to(dtype)
    return x.div_(255) if obs.dtype == torch.uint8 else x


@ENCODERS.register("conv")
class Conv(Encoder[ConvConfig]):
    """An encoder of images [B, C, H, W], uint8 or floats in [0, 1] -> [B, d]."""

    Config = ConvConfig

    @classmethod
    def check(cls, config: ConvConfig, observation_shape: tuple[int, ...]) -> None:
        if len(observation_shape) != 3:
            raise ShapeError(
                f"encoder 'conv' reads images [C, H, W], got observations of shape {list(observation_shape)};"
                " use encoder 'mlp' for vectors"
            )
        if config.input == "differences" and (observation_shape[0] % _COLORS or observation_shape[0] == _COLORS):
            raise ShapeError(
                "encoder 'conv' with input=differences requires a stack of color frames [3k, H, W] with k >= 2,"
                f" got {list(observation_shape)}; set encoder.input=frames"
            )
        for side in observation_shape[1:]:
            if (sides := _sides(side, config.strides))[-1] < 1:
                raise ConfigError(
                    f"encoder 'conv': an image side of {side} is too small for strides {config.strides}: sides {sides}"
                )

    def __init__(self, config: ConvConfig, observation_shape: tuple[int, ...], latent_dim: int) -> None:
        super().__init__(config, observation_shape, latent_dim)
        channels, height, width = observation_shape
        self.strides, self.input = config.strides, config.input
        inputs = (channels, *itertools.repeat(config.filters, len(config.strides) - 1))
        self.layers = nn.ModuleList(
            nn.Conv2d(n, config.filters, kernel_size=3, stride=stride)
            for n, stride in zip(inputs, config.strides, strict=True)
        )
        self.feature_dim = config.filters * _sides(height, config.strides)[-1] * _sides(width, config.strides)[-1]
        if config.init == "orthogonal":
            initialize(self)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.head = nn.Linear(self.feature_dim, latent_dim)
        if config.init == "orthogonal":
            initialize(self.head)

    def prepare(self, obs: Tensor) -> Tensor:
        return as_pixels(obs, self._dtype)

    def trunk(self, obs: Tensor) -> Tensor:
        x = as_pixels(obs, self._dtype)
        for weight, bias, stride in zip(*self._weights_and_biases(), self.strides, strict=True):
            x = F.relu_(F.conv2d(x, weight, bias, stride))
        # Channels last is twice as fast on a CPU. Flattening in that order copies nothing.
        return x.permute(0, 2, 3, 1).flatten(1)

    @property
    def _dtype(self) -> torch.dtype:
        return self.head.weight.dtype  # type: ignore[return-value]

    def _weights_and_biases(self) -> tuple[list[Tensor], list[Tensor]]:
        """Return weights [O, C, 3, 3] and biases [O], one of each per layer, for pixels in [0, 1]."""
        layers = [layer for layer in self.layers if isinstance(layer, nn.Conv2d)]
        weights = [layer.weight for layer in layers]
        biases = [layer.bias for layer in layers if layer.bias is not None]
        if self.input == "differences":
            weights[0], biases[0] = _reading_frames(weights[0], biases[0])
        return weights, biases


def _reading_frames(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return a layer on frames that equals the layer `weight` [O, 3k, 3, 3], `bias` [O] on their differences.

    That layer reads x_2 - x_1, ..., x_k - x_{k-1}, x_k - 1/2 for frames x_1, ..., x_k. Both layers are linear, so
    the small weight is transformed instead of the images. No frame is copied.
    """
    moves, newest = weight[:, :-_COLORS], weight[:, -_COLORS:]
    before, after = (F.pad(moves, (0, 0, 0, 0, *ends)) for ends in ((0, _COLORS), (_COLORS, 0)))
    still = F.pad(newest, (0, 0, 0, 0, weight.shape[1] - _COLORS, 0))
    return after - before + still, bias - newest.sum((1, 2, 3)) / 2


def _sides(side: int, strides: tuple[int, ...]) -> list[int]:
    """Return the image side before and after each layer."""
    return list(itertools.accumulate(strides, lambda size, stride: (size - 3) // stride + 1, initial=side))
