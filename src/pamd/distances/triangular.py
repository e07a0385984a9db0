"""The hot path: the last layer of a pair network and the quadratic forms of its triangular factors, in one operation.

A packed triangle would have to be unpacked element by element, which takes as long as computing it. So the weights of
the layer are unpacked instead, row by row, for a block of neighbouring columns at a time. The block of a factor then
leaves the product as a plain matrix with a few zeros above its diagonal, and is used while it is in the cache.
`fused_form` stands for a plain function (`triangular_form` in `pamd.py`). `tests/distances/test_triangular.py` compares
the two. The plain function takes over wherever more than a first derivative is asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from pamd.distances.derivatives import needs_plain, plain_gradients
from pamd.distances.pairwise import rehu, rehu_slope

__all__ = ["floats_per_pair", "fused_form", "packed_size"]

Plain = Callable[..., tuple[Tensor, Tensor, Tensor]]

_COLUMNS = 25
"""About how many columns a block has. Wider blocks compute more zeros, narrower ones make small products."""


def packed_size(d: int) -> int:
    """The number of entries in the lower triangle of a d x d matrix, with its diagonal."""
    return d * (d + 1) // 2


def floats_per_pair(d: int, b: int) -> int:
    """The memory of a pair's factors of b x b without a gradient: two blocks, in two orders."""
    return 4 * d * min(b, 2 * _COLUMNS)


def fused_form(
    plain: Plain, hidden: Tensor, weight: Tensor, bias: Tensor, delta: Tensor, epsilon: float, rows: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """What `plain` returns for the other arguments: sum_k |L_k^T delta_k|^2 [N], sum_k |L_k|_F^2 [N], L [m, K, d, d].

    hidden [N, h] times weight [K d(d+1)/2, h] plus bias is packed row-major. The diagonals are its ReHU plus epsilon.
    delta: [N, K, d]. The factors L are those of the distinct `rows` [m].
    """
    dtype = torch.promote_types(delta.dtype, hidden.dtype)
    tensors = [x.to(dtype) for x in (hidden, weight, bias, delta)]
    with torch.autocast(hidden.device.type, enabled=False):  # what is squared and summed here needs float32
        if needs_plain(*tensors):
            return plain(*tensors, epsilon=epsilon, rows=rows)
        found = _FusedForm.apply(*tensors, epsilon, rows, torch.is_grad_enabled(), plain)  # type: ignore[no-untyped-call]
    quadratic, squared_norm, factors = found
    return quadratic, squared_norm, factors


class _Block:
    """Columns `first` to `stop` of every factor, from row `first` down: [K, d - first, stop - first]."""

    def __init__(self, first: int, stop: int, d: int, factors: int, device: torch.device) -> None:
        self.columns, self.below = slice(first, stop), slice(first, d)
        self._shape = (factors, d - first, stop - first)
        width = self._width = stop - first
        row, column = (torch.arange(first, end, device=device) for end in (d, stop))
        self._packed = (_start_of(row)[:, None] + column).flatten()
        # The first rows are a square on the diagonal. The entries above the diagonal are not in the packed layer.
        lower, above = (
            torch.tril_indices(width, width, device=device),
            torch.triu_indices(width, width, 1, device=device),
        )
        self._lower, self._above = (index[0] * width + index[1] for index in (lower, above))
        self._square = width * width

    def gather(self, packed: Tensor) -> Tensor:
        """The units of the block from a packed layer, 0 above the diagonal: [K d(d+1)/2, ...] -> [K units, ...]."""
        units: Tensor = packed.unflatten(0, (self._shape[0], -1)).index_select(1, self._packed)
        return units.index_fill_(1, self._above, 0).flatten(0, 1)

    def scatter(self, units: Tensor, packed: Tensor) -> None:
        """Write the units to their places in a packed layer. Those above the diagonal are dropped."""
        packed, units = (x.unflatten(0, (self._shape[0], -1)) for x in (packed, units))
        packed.index_copy_(1, self._packed[self._lower], units.index_select(1, self._lower))
        packed.index_copy_(1, self._packed[self._square :], units[:, self._square :])

    def matrices(self, units: Tensor) -> Tensor:
        """[N, K units] -> [N, K, rows, columns]"""
        return units.view(len(units), *self._shape)

    def diagonal(self, L: Tensor) -> Tensor:
        """[N, K, rows, columns] -> a view [N, K, columns]."""
        return L[:, :, : self._width].diagonal(dim1=2, dim2=3)


@functools.lru_cache(maxsize=8)
def _cached_blocks(d: int, factors: int, device: torch.device) -> list[_Block]:
    count = max(1, round(d / _COLUMNS))
    edges = [round(k * d / count) for k in range(count + 1)]
    return [_Block(first, stop, d, factors, device) for first, stop in pairwise(edges)]


def _blocks(delta: Tensor) -> list[_Block]:
    """The blocks of the factors for delta [N, K, d]."""
    return _cached_blocks(delta.shape[2], delta.shape[1], delta.device)


def _start_of(row: Tensor) -> Tensor:
    """The index at which a row of a packed triangle begins."""
    return row * (row + 1) // 2


class _FusedForm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        delta: Tensor,
        epsilon: float,
        rows: Tensor,
        differentiable: bool,
        plain: Plain,
    ) -> tuple[Tensor, Tensor, Tensor]:
        y, diagonal = torch.empty_like(delta), torch.empty_like(delta)  # diagonal: before ReHU
        squared_norm = delta.new_zeros(len(delta))
        factors = delta.new_zeros(len(rows), *delta.shape[1:], delta.shape[2])
        kept = []
        for block in _blocks(delta):
            block_weight = block.gather(weight)
            L = block.matrices(torch.addmm(block.gather(bias), hidden, block_weight.T))
            on_diagonal = block.diagonal(L)
            diagonal[..., block.columns] = on_diagonal
            on_diagonal.copy_(rehu(diagonal[..., block.columns]) + epsilon)
            y[..., block.columns] = (delta[..., None, block.below] @ L).squeeze(-2)  # L^T delta
            squared_norm += torch.linalg.vector_norm(L, dim=(1, 2, 3)).square()
            factors[..., block.below, block.columns] = L[rows]
            if differentiable:
                kept += [L, block_weight]
        ctx.save_for_backward(hidden, weight, bias, delta, rows, y, diagonal, *kept)
        ctx.set_materialize_grads(False)
        ctx.epsilon, ctx.plain = epsilon, plain
        return y.square().sum((1, 2)), squared_norm, factors

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        with torch.autocast(saved[0].device.type, enabled=False):
            # Autograd enables gradients here only if a second derivative is wanted (create_graph).
            if torch.is_grad_enabled():
                plain = functools.partial(ctx.plain, epsilon=ctx.epsilon, rows=saved[4])
                found = plain_gradients(plain, saved[:4], ctx.needs_input_grad[:4], gradients)
            else:
                found = _fused_gradients(saved, ctx.needs_input_grad[1], *gradients)
        return (*found, None, None, None, None)


def _fused_gradients(
    saved: tuple[Tensor, ...],
    layer_needed: bool,
    grad_quadratic: Tensor | None,
    grad_norm: Tensor | None,
    grad_factors: Tensor | None,
) -> list[Tensor | None]:
    """The gradients of hidden, weight, bias and delta. The layer's are a third of the work, so only where needed."""
    hidden, weight, _, delta, rows, y, diagonal, *kept = saved
    grad_y = torch.zeros_like(y) if grad_quadratic is None else y * (2 * grad_quadratic[:, None, None])
    times = 0.0 if grad_norm is None else 2 * grad_norm[:, None, None, None]
    slope = rehu_slope(diagonal)
    grad_hidden, grad_delta, ones = torch.zeros_like(hidden), torch.zeros_like(delta), hidden.new_ones(len(hidden))
    grad_weight, grad_bias = (torch.empty_like(weight), weight.new_empty(len(weight))) if layer_needed else (None, None)
    for block, L, block_weight in zip(_blocks(delta), kept[::2], kept[1::2], strict=True):
        part = grad_y[..., block.columns]
        grad_delta[..., block.below] += (part[..., None, :] @ L.mT).squeeze(-2)  # six times as fast as L @ part
        grad_L = (L * times).addcmul_(delta[..., block.below, None], part[..., None, :])
        if grad_factors is not None:
            grad_L[rows] += grad_factors[..., block.below, block.columns]
        block.diagonal(grad_L).mul_(slope[..., block.columns])
        units = grad_L.flatten(1)
        torch.addmm(grad_hidden, units, block_weight, out=grad_hidden)
        if grad_weight is not None and grad_bias is not None:
            block.scatter(units.T @ hidden, grad_weight)
            block.scatter(units.T @ ones, grad_bias)
    return [grad_hidden, grad_weight, grad_bias, grad_delta]
