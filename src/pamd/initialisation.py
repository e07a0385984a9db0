"""Weight initialisation: orthogonal linear layers, delta-orthogonal convolutions, zero biases."""

from __future__ import annotations

from torch import nn

__all__ = ["initialise"]


def initialise(module: nn.Module) -> None:
    """Initialise every linear and convolutional layer below `module`."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight)
            nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.Conv2d):
            # Delta-orthogonal: only the kernel's centre has weight, so the layer keeps the signal's norm.
            assert layer.bias is not None
            nn.init.zeros_(layer.weight)
            middle = layer.kernel_size[0] // 2
            nn.init.orthogonal_(layer.weight.data[:, :, middle, middle], gain=nn.init.calculate_gain("relu"))
            nn.init.zeros_(layer.bias)
