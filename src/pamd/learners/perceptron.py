"""The multilayer perceptron of actors and critics."""

from __future__ import annotations

from torch import nn

__all__ = ["perceptron"]


def perceptron(inputs: int, hidden: int, outputs: int, layer_norm: bool) -> nn.Sequential:
    """Return a network [B, inputs] -> [B, outputs] with two hidden layers and ReLU.

    With `layer_norm`, each hidden layer is normalized before its ReLU. More units then stay active at large learning
    rates.
    """
    layers: list[nn.Module] = []
    for width in (inputs, hidden):
        layers += [nn.Linear(width, hidden), *([nn.LayerNorm(hidden)] if layer_norm else []), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, outputs))
