"""Weight initialization: orthogonal linear layers, delta-orthogonal convolutions, zero biases; or PyTorch's default."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

Initialization = Literal["orthogonal", "pytorch"]
"""Orthogonal weights and zero biases, or PyTorch's default initialization of a layer."""


def initialize(module: nn.Module) -> None:
    """Initialize every linear and convolutional layer in `module`."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight)
            nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.Conv2d):
            # Delta-orthogonal: only the kernel's center is nonzero, so the layer preserves the signal's norm.
            assert layer.bias is not None
            nn.init.zeros_(layer.weight)
            middle = layer.kernel_size[0] // 2
            nn.init.orthogonal_(layer.weight.data[:, :, middle, middle], gain=nn.init.calculate_gain("relu"))
            nn.init.zeros_(layer.bias)


def initialize_uniform(parameter: Tensor, inputs: int) -> None:
    """Initialize as PyTorch does in a linear layer: uniform on [-1/sqrt(inputs), 1/sqrt(inputs)]."""
    bound = inputs**-0.5
    nn.init.uniform_(parameter, -bound, bound)
