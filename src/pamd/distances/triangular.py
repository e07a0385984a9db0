"""The last layer of a pair network and the quadratic forms of the triangular factors it gives, as one operation.

Written out by hand because it is the hot path. A packed triangle would have to be unpacked element by element, which
takes as long as computing it; so the layer's weights are unpacked instead, row by row, into blocks of neighbouring
columns. A block of a factor is then a plain matrix as it leaves the product, with a few zeros above its diagonal, and
is used while it is in the cache. `tests/distances/test_triangular.py` holds it to the textbook construction.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pamd.distances.pairwise import both_orders, rehu, rehu_slope
from pamd.distances.quadratic import Form
from pamd.errors import PamdError

__all__ = ["packed_size", "predicted_form", "triangular_form"]

_COLUMNS = 25
"""About how many a block has: more of them compute more zeros, fewer make small products."""


def packed_size(d: int) -> int:
    """How many entries the lower triangle of a d x d matrix has, its diagonal included."""
    return d * (d + 1) // 2


def predicted_form(net: nn.Sequential, z: Tensor, z_prime: Tensor, delta: Tensor, epsilon: float, rows: Tensor) -> Form:
    """The form whose K factors of b x b on the diagonal `net` predicts from pairs z, z_prime [P, d], in both orders.

    delta: [P, K, b]; K b = d.
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
        return _TriangularForm.apply(hidden, weight, bias, delta, epsilon, rows)  # type: ignore[no-untyped-call,no-any-return]


class _Block(NamedTuple):
    """Columns `first` to `stop` of every factor, from row `first` down."""

    first: int
    stop: int
    units: slice
    """Where the unpacked layer has them: K matrices, row-major."""


class _Unpacked(NamedTuple):
    blocks: list[_Block]
    place: Tensor
    """[K d(d+1)/2]: the unpacked unit of each packed one."""
    above: Tensor
    """The units that no packed one has: above the diagonal, and 0."""

    def spread(self, packed: Tensor) -> Tensor:
        """[K d(d+1)/2, ...] -> [units, ...]"""
        units = packed.new_empty(len(self.place) + len(self.above), *packed.shape[1:])
        return units.index_copy_(0, self.place, packed).index_fill_(0, self.above, 0)


class _TriangularForm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, delta: Tensor, epsilon: float, rows: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        n, factors, d = delta.shape
        layout = _unpacked(d, factors, delta.device)
        weight, bias = layout.spread(weight), layout.spread(bias)
        y, diagonal = torch.empty_like(delta), torch.empty_like(delta)  # diagonal: before ReHU
        squared_norm, wanted = delta.new_zeros(n), delta.new_zeros(len(rows), factors, d, d)
        kept = []
        for first, stop, units in layout.blocks:
            L = torch.addmm(bias[units], hidden, weight[units].T).view(n, factors, d - first, stop - first)
            on_diagonal = L[:, :, : stop - first].diagonal(dim1=2, dim2=3)
            diagonal[..., first:stop] = on_diagonal
            on_diagonal.copy_(rehu(diagonal[..., first:stop]) + epsilon)
            y[..., first:stop] = (delta[..., None, first:] @ L).squeeze(-2)  # L^T delta
            squared_norm += torch.linalg.vector_norm(L, dim=(1, 2, 3)).square()
            wanted[..., first:, first:stop] = L[rows]
            kept.append(L)
        ctx.save_for_backward(hidden, weight, delta, y, diagonal, rows, *kept)
        ctx.layout = layout
        ctx.set_materialize_grads(False)
        return y.square().sum((1, 2)), squared_norm, wanted

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        # Autograd turns gradients on here only where a second derivative is wanted (create_graph).
        if torch.is_grad_enabled():
            raise PamdError("this distance is differentiable once; second derivatives (create_graph) are not available")
        with torch.autocast(ctx.saved_tensors[0].device.type, enabled=False):
            return (*_TriangularForm._gradients(ctx, *gradients), None, None)

    @staticmethod
    def _gradients(
        ctx: Any, of_quadratic: Tensor | None, of_norm: Tensor | None, of_wanted: Tensor | None
    ) -> tuple[Tensor, ...]:
        hidden, weight, delta, y, diagonal, rows, *kept = ctx.saved_tensors
        of_y = torch.zeros_like(y) if of_quadratic is None else y * (2 * of_quadratic[:, None, None])
        times = 0.0 if of_norm is None else 2 * of_norm[:, None, None, None]
        slope = rehu_slope(diagonal)
        of_hidden, of_weight, of_delta = torch.zeros_like(hidden), torch.empty_like(weight), torch.zeros_like(delta)
        of_bias, ones = weight.new_empty(len(weight)), hidden.new_ones(len(hidden))
        for (first, stop, units), L in zip(ctx.layout.blocks, kept, strict=True):
            part = of_y[..., first:stop]
            of_delta[..., first:] += (part[..., None, :] @ L.mT).squeeze(-2)  # six times as fast as L @ part
            of_L = (L * times).addcmul_(delta[..., first:, None], part[..., None, :])
            if of_wanted is not None:
                of_L[rows] += of_wanted[..., first:, first:stop]
            of_L[:, :, : stop - first].diagonal(dim1=2, dim2=3).mul_(slope[..., first:stop])
            of_units = of_L.flatten(1)
            torch.mm(of_units.T, hidden, out=of_weight[units])
            torch.mv(of_units.T, ones, out=of_bias[units])
            torch.addmm(of_hidden, of_units, weight[units], out=of_hidden)
        place = ctx.layout.place
        return of_hidden, of_weight.index_select(0, place), of_bias[place], of_delta


@functools.lru_cache(maxsize=8)
def _unpacked(d: int, factors: int, device: torch.device) -> _Unpacked:
    """How `factors` packed triangles of a d x d matrix lie in blocks."""
    count = max(1, round(d / _COLUMNS))
    row, column = torch.tril_indices(d, d)
    place = torch.empty(factors, packed_size(d), dtype=torch.long)
    blocks: list[_Block] = []
    start = 0
    for first, stop in pairwise(round(k * d / count) for k in range(count + 1)):
        inside = (column >= first) & (column < stop)
        width, size = stop - first, (d - first) * (stop - first)
        within = (row[inside] - first) * width + column[inside] - first
        place[:, inside] = start + size * torch.arange(factors)[:, None] + within
        blocks.append(_Block(first, stop, slice(start, start + factors * size)))
        start += factors * size
    taken = torch.zeros(start, dtype=torch.bool).index_fill_(0, place.flatten(), True)
    return _Unpacked(blocks, place.flatten().to(device), torch.nonzero(~taken).flatten().to(device))
