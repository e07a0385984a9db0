"""The hot path: the last layer of a pair network and the quadratic forms of its triangular factors, in few operations.

The factors stay packed. A b x b factor has b(b+1)/2 entries, stored row by row. Each entry is one output unit of the
layer. With K factors in L and P pairs in both orders (N = 2 P columns: all pairs in one order, then all in the other):

    units of the layer   (0,0)  (1,0) (1,1)  (2,0) (2,1) (2,2) ...     one row of memory each, [N]
    row of the triangle    0      1     1      2     2     2
    its column             0      0     1      0     1     2

One unit is one row of memory, which holds this unit for all pairs. The values of the rows or columns of a triangle are
therefore copied or summed in whole rows of memory, which is fast, and the zeros above a diagonal are never computed.
The layer is processed in blocks of consecutive units. Each block is used while it is in the cache.

`packed_form` computes the same result as a plain function (`triangular_form` in `pamd.py`), which is used instead if
more than a first derivative is needed. `tests/distances/test_packed.py` compares the two.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

_Plain = Callable[..., tuple[Tensor, Tensor, Tensor]]

_BLOCK_FLOATS = 2**19
"""The maximum number of floats in a block, for all pairs: 2 MB in float32. A block has at least one triangle row."""


def packed_size(b: int) -> int:
    """Return the number of entries in the lower triangle of a b x b matrix, including the diagonal."""
    return b * (b + 1) // 2


def floats_per_pair(d: int, b: int) -> int:
    """Return the floats per pair without a gradient: its b x b factors in one block, three times, in two orders.

    `all_pairs` computes as many pairs at once as fit in its workspace. A block then has a few rows of a triangle.
    """
    return 6 * min(packed_size(b) * (d // b), 8 * b)


def packed_form(
    plain: _Plain, hidden: Tensor, weight: Tensor, bias: Tensor, delta: Tensor, epsilon: float, rows: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `plain` of the other arguments: sum |L_k^T delta_k|^2 [P], sum |L_k|_F^2 [P], L [2, m, K, b, b].

    The sums are over the K factors in both orders. hidden [2, P, h] times weight [K b(b+1)/2, h] plus bias gives their
    entries, packed row-major. On the diagonals, ReHU is applied and epsilon is added. delta: [P, K, b]. L has the
    factors of the distinct `rows`.
    """
    dtype = torch.promote_types(delta.dtype, hidden.dtype)
    tensors = [x.to(dtype) for x in (hidden, weight, bias, delta)]
    with torch.autocast(hidden.device.type, enabled=False):  # sums of squares need float32
        if needs_plain(*tensors):
            return plain(*tensors, epsilon=epsilon, rows=rows)
        result: tuple[Tensor, Tensor, Tensor] = _PackedForm.apply(  # type: ignore[no-untyped-call]
            *tensors, epsilon, rows, torch.is_grad_enabled(), plain
        )
    return result


def needs_plain(*inputs: Tensor) -> bool:
    """Return True if torch.compile, torch.export, torch.func, forward mode or a tracer requires plain code."""
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or any(type(x) not in (Tensor, torch.nn.Parameter) for x in inputs)  # a tracer's tensors
        or any(forward_ad.unpack_dual(x).tangent is not None for x in inputs)
    )


def plain_gradients(
    plain: Callable[..., tuple[Tensor, ...]],
    inputs: Sequence[Tensor],
    needed: Sequence[bool],
    grad_outputs: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Return the gradients of the `needed` inputs of plain(*inputs), with a graph for further differentiation.

    The backward pass calls this function if autograd runs with create_graph.
    """
    # Aliases prevent autograd from following a path from one input to another. Both may come from the same latents.
    aliases = [x.view_as(x) for x in inputs]
    used = [(output, grad) for output, grad in zip(plain(*aliases), grad_outputs, strict=True) if grad is not None]
    outputs, grads = [output for output, _ in used], [grad for _, grad in used]
    sources = [x for x, need in zip(aliases, needed, strict=True) if need]
    slopes = iter(torch.autograd.grad(outputs, sources, grads, create_graph=True, allow_unused=True))
    return [next(slopes) if need else None for need in needed]


class _PackedForm(torch.autograd.Function):
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
        plain: _Plain,
    ) -> tuple[Tensor, Tensor, Tensor]:
        pairs, factors, b = delta.shape
        x = hidden.reshape(2 * pairs, hidden.shape[2]).T  # [h, N]
        deltas = delta.flatten(1).T.contiguous()  # [K b, P]
        deltas_twice = torch.cat([deltas, deltas], 1)  # `repeat` is ten times slower
        columns = torch.cat([rows, rows + pairs])  # both orders of the requested pairs
        y = torch.zeros_like(deltas_twice)  # L^T delta
        slope = torch.empty_like(y)  # the derivative of ReHU on the diagonals
        trace, selected = deltas.new_zeros(pairs), deltas.new_empty(len(weight), len(columns))
        kept = []
        for block in _blocks(deltas, b):
            L = torch.addmm(bias[block.units, None], weight[block.units], x)  # [u, N]
            # ReHU on the diagonal entries: inner (x - inner / 2) + epsilon with inner = clamp(x, 0, 1).
            raw = L.index_select(0, block.diagonal)
            inner = torch.clamp(raw, 0, 1, out=slope[block.rows])
            L.index_copy_(0, block.diagonal, raw.sub_(inner, alpha=0.5).mul_(inner).add_(epsilon))
            # (L^T delta)_j = sum_i L_ij delta_i: multiply each entry by the delta of its row, sum over its column.
            expanded = block.at_rows(deltas_twice).mul_(L)
            y[block.columns] += block.column_sums(expanded)
            trace += torch.mul(L, L, out=expanded).view(2 * len(L), pairs).sum(0)  # tr L L^T = |L|_F^2
            if len(columns):
                torch.index_select(L, 1, columns, out=selected[block.units])
            if differentiable:
                kept.append(L)
        ctx.save_for_backward(hidden, weight, bias, delta, rows, x, deltas, columns, y, slope, *kept)
        ctx.set_materialize_grads(False)
        ctx.epsilon, ctx.plain = epsilon, plain
        quadratic = y.square().view(2 * len(deltas), pairs).sum(0)  # Delta^T L L^T Delta = |L^T Delta|^2
        return quadratic, trace, _unpacked(selected, factors, b).view(2, len(rows), factors, b, b)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, delta, rows, *_ = ctx.saved_tensors
        with torch.autocast(hidden.device.type, enabled=False):
            # Autograd enables gradients here only if a second derivative is needed (create_graph).
            if torch.is_grad_enabled():
                plain = functools.partial(ctx.plain, epsilon=ctx.epsilon, rows=rows)
                slopes = plain_gradients(plain, (hidden, weight, bias, delta), ctx.needs_input_grad[:4], gradients)
            else:
                slopes = _gradients(ctx, *gradients)
        return (*slopes, None, None, None, None)


def _gradients(
    ctx: Any, grad_quadratic: Tensor | None, grad_trace: Tensor | None, grad_factors: Tensor | None
) -> list[Tensor | None]:
    """Return the gradients of hidden, weight, bias and delta from those of the three results."""
    hidden, weight, _, delta, _, x, deltas, columns, y, slope, *kept = ctx.saved_tensors
    pairs = len(delta)

    def doubled(gradient: Tensor) -> Tensor:
        """Double a gradient [P], because of the square, and repeat it for both orders: [N]."""
        return torch.cat([2 * gradient, 2 * gradient])

    grad_y = torch.zeros_like(y) if grad_quadratic is None else y * doubled(grad_quadratic)
    trace_slope = None if grad_trace is None else doubled(grad_trace)
    selected_slope = None if grad_factors is None else _packed(grad_factors.flatten(0, 1))
    deltas_twice = torch.cat([deltas, deltas], 1)
    grad_hidden, grad_deltas = x.new_zeros(2 * pairs, len(x)), torch.empty_like(deltas)
    # The gradients of the layer are a third of the work, so they are computed only if needed.
    needed = ctx.needs_input_grad[1]
    grad_weight, grad_bias = (torch.empty_like(weight), weight.new_empty(len(weight))) if needed else (None, None)
    for block, L in zip(_blocks(deltas, delta.shape[2]), kept, strict=True):
        expanded = block.at_columns(grad_y)
        grad_L = block.at_rows(deltas_twice).mul_(expanded)
        sums = block.row_sums(expanded.mul_(L))
        torch.sum(sums.view(len(sums), 2, pairs), 1, out=grad_deltas[block.rows])
        if trace_slope is not None:
            grad_L.addcmul_(L, trace_slope)
        if selected_slope is not None:
            grad_L.index_add_(1, columns, selected_slope[block.units])
        grad_L.index_copy_(0, block.diagonal, grad_L.index_select(0, block.diagonal).mul_(slope[block.rows]))
        torch.addmm(grad_hidden, grad_L.T, weight[block.units], out=grad_hidden)
        if grad_weight is not None and grad_bias is not None:
            torch.mm(grad_L, x.T, out=grad_weight[block.units])
            torch.sum(grad_L, 1, out=grad_bias[block.units])
    return [grad_hidden.view(hidden.shape), grad_weight, grad_bias, grad_deltas.T.reshape(delta.shape)]


class _Block:
    """Consecutive units of the layer: whole rows of the packed triangles. Triangle k has rows k b to k b + b - 1."""

    def __init__(self, row: Tensor, column: Tensor, start: int, device: torch.device) -> None:
        """Build the indices of units at positions row, column [u] in the triangles. `start` is the first unit's index.

        row and column are on the CPU, so that their values can be read. The resulting indices are on `device`.
        """

        def on_device(index: Tensor) -> Tensor:
            return index.to(device, non_blocking=True)

        def index_range(index: Tensor) -> tuple[slice, Tensor, Tensor]:
            """Return the range of an index [u], the index within it, and the start of each value in sorted order."""
            first, last = int(index.min()), int(index.max())
            counts = torch.bincount(index - first)
            return slice(first, last + 1), on_device(index - first), on_device(counts.cumsum(0) - counts)

        self.units = slice(start, start + len(row))
        self.rows, self._row, self._row_starts = index_range(row)
        self.columns, self._column, self._column_starts = index_range(column)
        self._by_row, self._by_column = on_device(torch.arange(len(row))), on_device(torch.argsort(column, stable=True))
        self.diagonal = on_device((row == column).nonzero().squeeze(1))

    def at_rows(self, values: Tensor) -> Tensor:
        """Look up the value of each unit's row: [K b, N] -> [u, N]."""
        return values[self.rows].index_select(0, self._row)

    def at_columns(self, values: Tensor) -> Tensor:
        """Look up the value of each unit's column: [K b, N] -> [u, N]."""
        return values[self.columns].index_select(0, self._column)

    # An embedding bag sums rows of memory by index. It is the fastest such sum that PyTorch has on a CPU.

    def row_sums(self, units: Tensor) -> Tensor:
        """Sum the units of each row: [u, N] -> [rows, N]."""
        return torch.embedding_bag(units, self._by_row, self._row_starts)[0]

    def column_sums(self, units: Tensor) -> Tensor:
        """Sum the units of each column: [u, N] -> [columns, N]."""
        return torch.embedding_bag(units, self._by_column, self._column_starts)[0]


def _blocks(deltas: Tensor, b: int) -> list[_Block]:
    """Return the blocks of the b x b factors for deltas [K b, P]."""
    side, pairs = deltas.shape
    # Use a power of two, so that similar numbers of pairs share their cached blocks.
    return _cached_blocks(b, side // b, _BLOCK_FLOATS >> max(0, 2 * pairs - 1).bit_length(), deltas.device)


@functools.lru_cache(maxsize=8)
def _cached_blocks(b: int, factors: int, units: int, device: torch.device) -> list[_Block]:
    """Return blocks of at most `units` units. A block has at least one row."""
    row, column = torch.tril_indices(b, b)
    first = b * torch.arange(factors)[:, None]
    row, column = (row + first).flatten(), (column + first).flatten()
    starts, ends = [0], torch.arange(1, b + 1).repeat(factors).cumsum(0).tolist()
    for end, after in itertools.pairwise(ends):
        if after - starts[-1] > units:
            starts.append(end)
    sizes = [stop - start for start, stop in zip(starts, [*starts[1:], ends[-1]], strict=True)]
    return [_Block(r, c, s, device) for r, c, s in zip(row.split(sizes), column.split(sizes), starts, strict=True)]


def _unpacked(units: Tensor, factors: int, b: int) -> Tensor:
    """Unpack factors: [K b(b+1)/2, n] -> [n, K, b, b], with 0 above the diagonal."""
    L = units.new_zeros(units.shape[1], factors * b * b)
    return L.index_copy_(1, _positions(b, factors, units.device), units.T).view(len(L), factors, b, b)


def _packed(L: Tensor) -> Tensor:
    """Pack factors: [n, K, b, b] -> [K b(b+1)/2, n]."""
    units: Tensor = L.flatten(1).index_select(1, _positions(L.shape[-1], L.shape[1], L.device)).T
    return units


@functools.lru_cache(maxsize=8)
def _positions(b: int, factors: int, device: torch.device) -> Tensor:
    """Return the flat positions of the packed entries in their matrices."""
    row, column = torch.tril_indices(b, b, device=device)
    positions: Tensor = (row * b + column + b * b * torch.arange(factors, device=device)[:, None]).flatten()
    return positions
