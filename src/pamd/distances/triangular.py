"""The hot path: the last layer of a pair network and the quadratic forms of its triangular factors, in one operation.

The factors stay packed, and one unit of the layer is one row of memory that holds this unit for all pairs. So whatever
belongs to the rows or columns of a triangle is copied or summed in whole rows, which is fast, and no zero above a
diagonal is computed. The layer is taken in blocks of neighboring units, each of which is used while it is in the cache.
`fused_form` stands for a plain function (`triangular_form` in `pamd.py`). `tests/distances/test_triangular.py` compares
the two. The plain function takes over wherever more than a first derivative is asked for.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pamd.distances.derivatives import needs_plain, plain_gradients
from pamd.distances.pairwise import rehu, rehu_slope

__all__ = ["floats_per_pair", "fused_form", "packed_size"]

Plain = Callable[..., tuple[Tensor, Tensor, Tensor]]

_BLOCK_FLOATS = 2**18
"""At most how many floats a block has, for all pairs: 1 MB in float32. A block has one row of a triangle at least."""


def packed_size(d: int) -> int:
    """The number of entries in the lower triangle of a d x d matrix, with its diagonal."""
    return d * (d + 1) // 2


def floats_per_pair(d: int, b: int) -> int:
    """The memory of a pair without a gradient: its factors of b x b in one block, three times, in two orders.

    `all_pairs` computes as many pairs at once as fit. A block then has a few rows of a triangle.
    """
    return 6 * min(packed_size(b) * (d // b), 8 * b)


def fused_form(
    plain: Plain, hidden: Tensor, weight: Tensor, bias: Tensor, delta: Tensor, epsilon: float, rows: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """What `plain` returns for the other arguments: sum |L_k^T delta_k|^2 [P], sum |L_k|_F^2 [P], L [m, 2, K, d, d].

    The sums run over the K factors in both orders. hidden [P, 2, h] times weight [K d(d+1)/2, h] plus bias is packed
    row-major. The diagonals are its ReHU plus epsilon. delta: [P, K, d]. The factors are those of the distinct `rows`.
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
    """Neighboring units of the layer: whole rows of the packed triangles. Triangle k has rows k d to k d + d - 1."""

    def __init__(self, row: Tensor, column: Tensor, start: int, device: torch.device) -> None:
        """row, column [u]: where the units stand in the triangles; start: the place of the first in the layer.

        Both are on the host, where their values can be read; the indices that come of them are on `device`.
        """

        def there(index: Tensor) -> Tensor:
            return index.to(device, non_blocking=True)

        self.units = slice(start, start + len(row))
        self.rows, within_rows, row_starts = _counted(row)
        self.columns, within_columns, column_starts = _counted(column)
        self._row, self._row_starts = there(within_rows), there(row_starts)
        self._column, self._column_starts = there(within_columns), there(column_starts)
        self._by_row, self._by_column = there(torch.arange(len(row))), there(torch.argsort(column, stable=True))
        self.diagonal = there((row == column).nonzero().squeeze(1))

    def of_rows(self, values: Tensor) -> Tensor:
        """Each unit's value of its row: [K d, N] -> [u, N]."""
        return values[self.rows].index_select(0, self._row)

    def of_columns(self, values: Tensor) -> Tensor:
        """Each unit's value of its column: [K d, N] -> [u, N]."""
        return values[self.columns].index_select(0, self._column)

    def row_sums(self, units: Tensor) -> Tensor:
        """[u, N] -> [rows, N]"""
        return F.embedding_bag(self._by_row, units, self._row_starts, mode="sum")

    def column_sums(self, units: Tensor) -> Tensor:
        """[u, N] -> [columns, N]"""
        return F.embedding_bag(self._by_column, units, self._column_starts, mode="sum")


def _counted(index: Tensor) -> tuple[slice, Tensor, Tensor]:
    """The range of an index [u], the index within it, and where each value of the range begins in sorted order."""
    first, last = int(index.min()), int(index.max())
    within = index - first
    counts = torch.bincount(within)
    return slice(first, last + 1), within, counts.cumsum(0) - counts


@functools.lru_cache(maxsize=8)
def _cached_blocks(d: int, factors: int, units: int, device: torch.device) -> list[_Block]:
    """Blocks of at most `units` units, or of one row."""
    row, column = torch.tril_indices(d, d)
    first = d * torch.arange(factors)[:, None]
    row, column = (row + first).flatten(), (column + first).flatten()
    starts, ends = [0], torch.arange(1, d + 1).repeat(factors).cumsum(0).tolist()
    for end, after in itertools.pairwise(ends):
        if after - starts[-1] > units:
            starts.append(end)
    sizes = [stop - start for start, stop in zip(starts, [*starts[1:], ends[-1]], strict=True)]
    return [_Block(r, c, s, device) for r, c, s in zip(row.split(sizes), column.split(sizes), starts, strict=True)]


def _blocks(delta: Tensor) -> list[_Block]:
    """The blocks of the factors for delta [P, K, d]."""
    pairs, factors, d = delta.shape
    # A power of two, so that nearby numbers of pairs share their blocks.
    return _cached_blocks(d, factors, _BLOCK_FLOATS >> max(0, 2 * pairs - 1).bit_length(), delta.device)


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
        pairs, both = len(delta), hidden.flatten(0, 1)  # [N, h], N = 2 P: the two orders of a pair are neighbors
        across = delta.flatten(1).T.repeat_interleave(2, 1)  # [K d, N]
        y, diagonal = torch.zeros_like(across), torch.empty_like(across)  # diagonal: before ReHU
        squared_norm = delta.new_zeros(2 * pairs)
        columns = _in_both_orders(rows)
        picked = delta.new_empty(len(weight), len(columns))
        kept = []
        for block in _blocks(delta):
            L = torch.addmm(bias[block.units, None], weight[block.units], both.T)  # [u, N]
            diagonal[block.rows] = L.index_select(0, block.diagonal)
            L.index_copy_(0, block.diagonal, rehu(diagonal[block.rows]) + epsilon)
            spread = block.of_rows(across).mul_(L)
            y[block.columns] += block.column_sums(spread)  # L^T delta
            squared_norm += torch.mul(L, L, out=spread).sum(0)
            picked[block.units] = L.index_select(1, columns)
            if differentiable:
                kept.append(L)
        ctx.save_for_backward(hidden, weight, bias, delta, rows, across, y, diagonal, *kept)
        ctx.set_materialize_grads(False)
        ctx.epsilon, ctx.plain = epsilon, plain
        quadratic = y.square().sum(0)
        factors = _unpacked(picked, *delta.shape[1:])
        return _of_pairs(quadratic), _of_pairs(squared_norm), factors.view(len(rows), 2, *factors.shape[1:])

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


def _of_pairs(x: Tensor) -> Tensor:
    """The sum over both orders: [..., 2 P] -> [..., P]."""
    return x[..., ::2] + x[..., 1::2]


def _in_both_orders(rows: Tensor) -> Tensor:
    """Where both orders of the pairs `rows` [m] stand among all 2 P -> [2 m]."""
    return torch.stack([2 * rows, 2 * rows + 1], 1).flatten()


def _unpacked(packed: Tensor, factors: int, d: int) -> Tensor:
    """[K d(d+1)/2, n] -> [n, K, d, d], 0 above the diagonal."""
    L = packed.new_zeros(packed.shape[1], factors * d * d)
    return L.index_copy_(1, _places(d, factors, packed.device), packed.T).view(len(L), factors, d, d)


def _packed(L: Tensor) -> Tensor:
    """[n, K, d, d] -> [K d(d+1)/2, n]"""
    packed: Tensor = L.flatten(1).index_select(1, _places(L.shape[-1], L.shape[1], L.device)).T
    return packed


@functools.lru_cache(maxsize=8)
def _places(d: int, factors: int, device: torch.device) -> Tensor:
    """Where the entries of the packed triangles stand in their matrices."""
    row, column = torch.tril_indices(d, d, device=device)
    places: Tensor = (row * d + column + d * d * torch.arange(factors, device=device)[:, None]).flatten()
    return places


def _fused_gradients(
    saved: tuple[Tensor, ...],
    layer_needed: bool,
    grad_quadratic: Tensor | None,
    grad_norm: Tensor | None,
    grad_factors: Tensor | None,
) -> list[Tensor | None]:
    """The gradients of hidden, weight, bias and delta. The layer's are a third of the work, so only where needed."""
    hidden, weight, bias, delta, rows, across, y, diagonal, *kept = saved
    grad_y = torch.zeros_like(y) if grad_quadratic is None else y * (2 * grad_quadratic).repeat_interleave(2)
    times = None if grad_norm is None else (2 * grad_norm).repeat_interleave(2)
    slope = rehu_slope(diagonal)
    picked, columns = None if grad_factors is None else _packed(grad_factors.flatten(0, 1)), _in_both_orders(rows)
    both = hidden.flatten(0, 1)
    grad_both, grad_across = torch.zeros_like(both), torch.empty_like(across)
    grad_weight, grad_bias = (torch.empty_like(weight), torch.empty_like(bias)) if layer_needed else (None, None)
    for block, L in zip(_blocks(delta), kept, strict=True):
        spread = block.of_columns(grad_y)
        grad_L = block.of_rows(across).mul_(spread)
        grad_across[block.rows] = block.row_sums(spread.mul_(L))
        if times is not None:
            grad_L.addcmul_(L, times)
        if picked is not None:
            grad_L.index_add_(1, columns, picked[block.units])
        grad_L.index_copy_(0, block.diagonal, grad_L.index_select(0, block.diagonal) * slope[block.rows])
        torch.addmm(grad_both, grad_L.T, weight[block.units], out=grad_both)
        if grad_weight is not None and grad_bias is not None:
            torch.mm(grad_L, both, out=grad_weight[block.units])
            torch.sum(grad_L, 1, out=grad_bias[block.units])
    grad_delta = _of_pairs(grad_across).T.reshape(delta.shape)
    return [grad_both.view_as(hidden), grad_weight, grad_bias, grad_delta]
