"""A stack of 3 x 3 convolutions with ReLU, with a hand-written backward pass for the CPU.

Most of the time of an update is spent here. PyTorch's backward pass is slow on a CPU for two reasons. Each layer's
gradient is written to memory and read back. In channels-last order, the kernel for the weights' gradient reaches half
the rate of a matrix product. Here the backward pass takes the batch through all layers in pieces that stay in the
cache, and the weights' gradient is a matrix product. `tests/encoders/test_convolve.py` compares it with autograd.
docs/performance.md reports the speedup. Plain convolutions are used if more than a first derivative is required.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pamd.distances.derivatives import needs_plain, plain_gradients

__all__ = ["convolve"]

_PIECE_BYTES = 8 * 2**20
"""Maximum memory of the first layer's output for a piece of the batch. A few of these fit into the last-level cache."""


def convolve(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], strides: Sequence[int]) -> Tensor:
    """Compute the output [B, O, H', W'] for x [B, C, H, W], channels last; weights [O, C, 3, 3]; biases [O].

    There is one weight, bias and stride per layer. The hand-written backward pass computes no gradient of x, because x
    is pixels. If x requires one, plain convolutions are used.
    """
    by_hand = x.device.type == "cpu" and torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
    learned = not x.requires_grad and any(w.requires_grad for w in weights)
    if by_hand and learned and not needs_plain(x, *weights, *biases):
        result: Tensor = _Stack.apply(x, tuple(strides), *weights, *biases)  # type: ignore[no-untyped-call]
        return result
    return _outputs(x, weights, biases, strides)[-1]


def _outputs(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], strides: Sequence[int]) -> list[Tensor]:
    """Return the input, followed by each layer's output."""
    outputs = [x]
    for weight, bias, stride in zip(weights, biases, strides, strict=True):
        outputs.append(_layer(outputs[-1], weight, bias, stride))
    return outputs


def _layer(x: Tensor, weight: Tensor, bias: Tensor, stride: int) -> Tensor:
    """Compute ReLU of the convolution, in one pass over memory if no gradient is recorded and oneDNN is available."""
    plain = torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or x.dtype != torch.float32
    if plain or needs_plain(x, weight, bias) or x.device.type != "cpu" or not _has_fused_layer():
        return F.relu_(F.conv2d(x, weight, bias, stride))
    y: Tensor = torch.ops.mkldnn._convolution_pointwise(
        x, weight, bias, [0, 0], [stride] * 2, [1, 1], 1, "relu", [], ""
    )
    return y


@functools.cache
def _has_fused_layer() -> bool:
    # torch.compile itself calls this operator. A build without oneDNN, or another release, may not have it.
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_convolution_pointwise")


class _Stack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, strides: tuple[int, ...], *parameters: Tensor) -> Tensor:
        weights, biases = parameters[: len(strides)], parameters[len(strides) :]
        outputs = _outputs(x, weights, biases, strides)
        ctx.strides = strides
        ctx.save_for_backward(*parameters, *outputs)
        return outputs[-1]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        strides, count = ctx.strides, 2 * len(ctx.strides)
        parameters, outputs = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        # Autograd enables gradients here only if a second derivative is required (create_graph).
        found: Sequence[Tensor | None]
        if torch.is_grad_enabled():
            plain = functools.partial(_last_output, outputs[0], strides)
            found = plain_gradients(plain, parameters, ctx.needs_input_grad[2:], [grad_output])
        else:
            found = _gradients(outputs, parameters[: len(strides)], strides, grad_output)
        return (None, None, *found)


def _last_output(x: Tensor, strides: tuple[int, ...], *parameters: Tensor) -> tuple[Tensor]:
    weights, biases = parameters[: len(strides)], parameters[len(strides) :]
    return (_outputs(x, weights, biases, strides)[-1],)


def _gradients(
    outputs: Sequence[Tensor], weights: Sequence[Tensor], strides: Sequence[int], grad_output: Tensor
) -> list[Tensor | None]:
    """Return the gradients of the weights, then of the biases. `outputs` is the input, then each layer's output."""
    depth = len(strides)
    grad_weights = [torch.zeros_like(w) for w in weights]
    grad_biases = [torch.zeros_like(w[:, 0, 0, 0]) for w in weights]
    # The first layer's gradient is computed last, for the whole batch: pieces do not make its kernel faster.
    first = torch.empty_like(outputs[1])
    pieces = math.ceil(first.numel() * first.element_size() / _PIECE_BYTES)
    piece = math.ceil(len(first) / max(1, pieces))
    for start in range(0, len(grad_output), piece):
        rows = slice(start, start + piece)
        gradient = grad_output[rows]
        for layer in range(depth - 1, 0, -1):
            gradient = torch.ops.aten.threshold_backward(gradient, outputs[layer + 1][rows], 0)
            x, stride = outputs[layer][rows], strides[layer]
            grad_weights[layer] += _grad_weight(x, gradient, stride)
            grad_biases[layer] += _grad_bias(gradient)
            gradient = _library(gradient, x, weights[layer], stride, (True, False))[0]
        torch.ops.aten.threshold_backward.grad_input(gradient, outputs[1][rows], 0, grad_input=first[rows])
    grad_weights[0] = _library(first, outputs[0], weights[0], strides[0], (False, True))[1]
    grad_biases[0] = _grad_bias(first)
    return [*grad_weights, *grad_biases]


def _grad_weight(x: Tensor, gradient: Tensor, stride: int) -> Tensor:
    """Return a weight's gradient [O, C, 3, 3] from the input [n, C, H, W] and the output's gradient [n, O, H', W']."""
    n, channels, height, _ = x.shape
    out, out_height, out_width = gradient.shape[1:]
    if stride != 1 or channels * out < 256:
        weight = x.new_empty(out, channels, 3, 3).contiguous(memory_format=torch.channels_last)
        found: Tensor = _library(gradient, x, weight, stride, (False, True))[1]
        return found
    x = x.permute(0, 2, 3, 1)
    # Three neighbors concatenated: [n, H, W', 3C]. Each row of the kernel is then one product over all positions.
    windows = x.as_strided((n, height, out_width, 3 * channels), (*x.stride()[:3], 1), x.storage_offset()).contiguous()
    places = gradient.permute(0, 2, 3, 1).reshape(n, out_height * out_width, out)
    rows = [torch.bmm(windows[:, k : k + out_height].reshape(n, -1, 3 * channels).mT, places).sum(0) for k in range(3)]
    return torch.stack(rows).view(3, 3, channels, out).permute(3, 2, 0, 1)


def _grad_bias(gradient: Tensor) -> Tensor:
    """Sum [n, O, H', W'] -> [O]. It is a matrix product, because a sum over columns takes many times as long."""
    places = gradient.permute(0, 2, 3, 1).reshape(-1, gradient.shape[1])
    return places.new_ones(len(places)) @ places


def _library(gradient: Tensor, x: Tensor, weight: Tensor, stride: int, wanted: tuple[bool, bool]) -> tuple[Any, ...]:
    """Return PyTorch's gradients of (input, weight, bias); those not `wanted` are None."""
    found: tuple[Any, ...] = torch.ops.aten.convolution_backward(
        gradient, x, weight, None, [stride] * 2, [0, 0], [1, 1], False, [0, 0], 1, [*wanted, False]
    )
    return found
