"""The last layer of a pair network and the quadratic forms of the triangular factors it gives, as one operation.

Written out by hand because it is the hot path. A packed triangle would have to be unpacked element by element, which
takes as long as computing it; so the layer's weights are unpacked instead, row by row, for a block of neighbouring
columns at a time. The block of a factor is then a plain matrix as it leaves the product, with a few zeros above its
diagonal, and is used while it is in the cache. `tests/distances/test_triangular.py` holds it to the textbook.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from pamd.distances.pairwise import both_orders, rehu, rehu_slope
from pamd.distances.quadratic import Form
from pamd.errors import PamdError

__all__ = ["floats_per_pair", "packed_size", "predicted_form", "triangular_form"]

_COLUMNS = 25
"""About how many a block has: more of them compute more zeros, fewer make small products."""


def packed_size(d: int) -> int:
    """How many entries the lower triangle of a d x d matrix has, its diagonal included."""
    return d * (d + 1) // 2


def floats_per_pair(d: int, b: int) -> int:
    """What a pair's factors of b x b take of memory without a gradient: two blocks, in two orders."""
    return 4 * d * min(b, 2 * _COLUMNS)


def predicted_form(net: nn.Sequential, z: Tensor, z_prime: Tensor, delta: Tensor, epsilon: float, rows: Tensor) -> Form:
    """The form whose K factors of b x b on the diagonal `net` predicts from pairs z, z_prime [P, d], in both orders.

    delta: [P, K, b]; K b = d. The last layer itself is not called, so hooks on it do not fire.
    """
    pairs, last = len(z), net[-1]
    assert isinstance(last, nn.Linear)
    hidden = both_orders(net[:-1], z, z_prime).flatten(0, 1)  # [2P, h]
    in_both_orders = (rows + pairs * rows.new_tensor([[0], [1]])).flatten()
    quadratic, trace, factors = triangular_form(
        hidden, last.weight, last.bias, delta.repeat(2, 1, 1), epsilon, in_both_orders
    )
    L = factors.unflatten(0, (2, len(rows)))  # [2, m, K, b, b]

    def product(v: Tensor) -> Tensor:
        split = v.reshape(len(v), *delta.shape[1:], v.shape[-1])
        found: Tensor = (L @ (L.mT @ split)).sum(0).flatten(1, 2)
        return found

    return Form(quadratic.view(2, pairs).sum(0), trace.view(2, pairs).sum(0), product)  # eq:symmetrize


def triangular_form(
    hidden: Tensor, weight: Tensor, bias: Tensor, delta: Tensor, epsilon: float, rows: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """sum_k |L_k^T delta_k|^2 [N], sum_k |L_k|_F^2 [N], and the factors L [m, K, d, d] of the distinct `rows` [m].

    hidden [N, h] times weight [K d(d+1)/2, h] plus bias is packed row-major; the diagonals are its ReHU, plus epsilon.
    delta: [N, K, d].
    """
    dtype = torch.promote_types(delta.dtype, hidden.dtype)
    hidden, weight, bias, delta = (x.to(dtype) for x in (hidden, weight, bias, delta))
    with torch.autocast(hidden.device.type, enabled=False):  # what is squared and summed here needs float32
        found = _TriangularForm.apply(hidden, weight, bias, delta, epsilon, rows, torch.is_grad_enabled())  # type: ignore[no-untyped-call]
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
        # The first rows are a square on the diagonal. What is above it has no place among the packed.
        lower, above = (
            torch.tril_indices(width, width, device=device),
            torch.triu_indices(width, width, 1, device=device),
        )
        self._lower, self._above = (index[0] * width + index[1] for index in (lower, above))
        self._square = width * width

    def of(self, packed: Tensor) -> Tensor:
        """The units of the block out of a packed layer, 0 above the diagonal: [K d(d+1)/2, ...] -> [K units, ...]."""
        units: Tensor = packed.unflatten(0, (self._shape[0], -1)).index_select(1, self._packed)
        return units.index_fill_(1, self._above, 0).flatten(0, 1)

    def into(self, packed: Tensor, units: Tensor) -> None:
        """Write units back where they came from, those above the diagonal nowhere."""
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
    """Of factors for delta [N, K, d]."""
    # What a tracer's tensors lead to must not be kept.
    made = _cached_blocks if type(delta) is Tensor else _cached_blocks.__wrapped__
    return made(int(delta.shape[2]), int(delta.shape[1]), delta.device)


def _start_of(row: Tensor) -> Tensor:
    """Where a row of a packed triangle begins."""
    return row * (row + 1) // 2


class _TriangularForm(torch.autograd.Function):
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
    ) -> tuple[Tensor, Tensor, Tensor]:
        y, diagonal = torch.empty_like(delta), torch.empty_like(delta)  # diagonal: before ReHU
        squared_norm = delta.new_zeros(len(delta))
        wanted = delta.new_zeros(len(rows), *delta.shape[1:], delta.shape[2])
        kept = []
        for block in _blocks(delta):
            of_block = block.of(weight)
            L = block.matrices(torch.addmm(block.of(bias), hidden, of_block.T))
            on_diagonal = block.diagonal(L)
            diagonal[..., block.columns] = on_diagonal
            on_diagonal.copy_(rehu(diagonal[..., block.columns]) + epsilon)
            y[..., block.columns] = (delta[..., None, block.below] @ L).squeeze(-2)  # L^T delta
            squared_norm += torch.linalg.vector_norm(L, dim=(1, 2, 3)).square()
            wanted[..., block.below, block.columns] = L[rows]
            if differentiable:
                kept += [L, of_block]
        ctx.save_for_backward(hidden, weight, delta, y, diagonal, rows, *kept)
        ctx.set_materialize_grads(False)
        return y.square().sum((1, 2)), squared_norm, wanted

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        # Autograd turns gradients on here only where a second derivative is wanted (create_graph).
        if torch.is_grad_enabled():
            raise PamdError("this distance is differentiable once; second derivatives (create_graph) are not available")
        saved = ctx.saved_tensors
        with torch.autocast(saved[0].device.type, enabled=False):
            return (*_gradients(saved, ctx.needs_input_grad[1], *gradients), None, None, None)


def _gradients(
    saved: tuple[Tensor, ...],
    of_the_layer: bool,
    of_quadratic: Tensor | None,
    of_norm: Tensor | None,
    of_wanted: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """Of hidden, weight, bias and delta; weight's and bias's, a third of the work, only where wanted `of_the_layer`."""
    hidden, weight, delta, y, diagonal, rows, *kept = saved
    of_y = torch.zeros_like(y) if of_quadratic is None else y * (2 * of_quadratic[:, None, None])
    times = 0.0 if of_norm is None else 2 * of_norm[:, None, None, None]
    slope = rehu_slope(diagonal)
    of_hidden, of_delta, ones = torch.zeros_like(hidden), torch.zeros_like(delta), hidden.new_ones(len(hidden))
    of_weight, of_bias = (torch.empty_like(weight), weight.new_empty(len(weight))) if of_the_layer else (None, None)
    for block, L, of_block in zip(_blocks(delta), kept[::2], kept[1::2], strict=True):
        part = of_y[..., block.columns]
        of_delta[..., block.below] += (part[..., None, :] @ L.mT).squeeze(-2)  # six times as fast as L @ part
        of_L = (L * times).addcmul_(delta[..., block.below, None], part[..., None, :])
        if of_wanted is not None:
            of_L[rows] += of_wanted[..., block.below, block.columns]
        block.diagonal(of_L).mul_(slope[..., block.columns])
        units = of_L.flatten(1)
        torch.addmm(of_hidden, units, of_block, out=of_hidden)
        if of_weight is not None and of_bias is not None:
            block.into(of_weight, units.T @ hidden)
            block.into(of_bias, units.T @ ones)
    return of_hidden, of_weight, of_bias, of_delta
