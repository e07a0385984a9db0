"""The hot path: the last layer of a pair network and the quadratic forms of its triangular factors, in few operations.

The factors stay packed. One unit of the layer is one row of memory, which holds this unit for all pairs. The values of
the rows or columns of a triangle are therefore copied or summed in whole rows of memory, which is fast, and the zeros
above a diagonal are never computed. The layer is processed in blocks of consecutive units. Each block is used while it
is in the cache.
`packed_forms` and `packed_gradients` are the forward and the backward pass. `head.py` adds the rest of the head.
`fused_form` is only the layer, for a network whose other layers must run separately. It computes the same result as a
plain function (`triangular_form` in `pamd.py`), which is used instead if more than a first derivative is needed.
`tests/distances/test_triangular.py` compares the two.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pamd.distances.derivatives import needs_plain, plain_gradients
from pamd.distances.packing import Block, cached_blocks, columns_in_both_orders, packed, packed_size, unpacked

__all__ = ["Packed", "floats_per_pair", "fused_form", "packed_forms", "packed_gradients"]

Plain = Callable[..., tuple[Tensor, Tensor, Tensor]]

_BLOCK_FLOATS = 2**19
"""The maximum number of floats in a block, for all pairs: 2 MB in float32. A block has at least one triangle row."""


def floats_per_pair(d: int, b: int) -> int:
    """Return the floats per pair without a gradient: its b x b factors in one block, three times, in two orders.

    `all_pairs` computes as many pairs at once as fit in its workspace. A block then has a few rows of a triangle.
    """
    return 6 * min(packed_size(b) * (d // b), 8 * b)


def fused_form(
    plain: Plain, hidden: Tensor, weight: Tensor, bias: Tensor, delta: Tensor, epsilon: float, rows: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `plain` of the other arguments: sum |L_k^T delta_k|^2 [P], sum |L_k|_F^2 [P], L [m, 2, K, d, d].

    The sums are over the K factors in both orders. hidden [P, 2, h] times weight [K d(d+1)/2, h] plus bias gives their
    entries, packed row-major. On the diagonals, ReHU is applied and epsilon is added. delta: [P, K, d]. L has the
    factors of the distinct `rows`.
    """
    dtype = torch.promote_types(delta.dtype, hidden.dtype)
    tensors = [x.to(dtype) for x in (hidden, weight, bias, delta)]
    with torch.autocast(hidden.device.type, enabled=False):  # sums of squares need float32
        if needs_plain(*tensors):
            return plain(*tensors, epsilon=epsilon, rows=rows)
        found = _FusedForm.apply(*tensors, epsilon, rows, torch.is_grad_enabled(), plain)  # type: ignore[no-untyped-call]
    quadratic, squared_norm, factors = found
    return quadratic, squared_norm, factors


def _blocks(deltas: Tensor, d: int) -> list[Block]:
    """Return the blocks of the d x d factors for deltas [K d, P]."""
    side, pairs = deltas.shape
    # Use a power of two, so that similar numbers of pairs share their cached blocks.
    return cached_blocks(d, side // d, _BLOCK_FLOATS >> max(0, 2 * pairs - 1).bit_length(), deltas.device)


class Packed(NamedTuple):
    """The forms of P pairs, and tensors for their gradients. N = 2 P: all pairs in one order, then all in the other."""

    quadratic: Tensor
    """[P]: sum |L_k^T delta_k|^2"""
    trace: Tensor
    """[P]: sum |L_k|_F^2"""
    selected: Tensor
    """[K d(d+1)/2, n]: the packed factors of the n requested columns"""
    y: Tensor
    """[K d, N]: L^T delta"""
    slope: Tensor
    """[K d, N]: the derivative of the diagonals"""
    blocks: list[Tensor]
    """The packed factors; empty if there is no gradient"""


def packed_forms(
    hidden: Tensor, weight: Tensor, bias: Tensor, deltas: Tensor, d: int, epsilon: float, columns: Tensor, keep: bool
) -> Packed:
    """Apply the layer to hidden [h, N], and compute the forms of the resulting K factors of d x d on deltas [K d, P].

    Each column of deltas is the delta of a pair. `columns` [n] are among the N. `keep` is True if gradients are needed.
    """
    side, pairs = deltas.shape
    y, slope = deltas.new_zeros(side, 2 * pairs), deltas.new_empty(side, 2 * pairs)
    deltas_twice = torch.cat([deltas, deltas], 1)  # `repeat` is ten times slower
    trace, selected, kept = deltas.new_zeros(pairs), deltas.new_empty(len(weight), len(columns)), []
    for block in _blocks(deltas, d):
        L = torch.addmm(bias[block.units, None], weight[block.units], hidden)  # [u, N]
        raw = L.index_select(0, block.diagonal)
        inner = torch.clamp(raw, 0, 1, out=slope[block.rows])
        L.index_copy_(0, block.diagonal, raw.sub_(inner, alpha=0.5).mul_(inner).add_(epsilon))  # ReHU
        expanded = block.at_rows(deltas_twice).mul_(L)
        y[block.columns] += block.column_sums(expanded)
        trace += torch.mul(L, L, out=expanded).view(2 * len(L), pairs).sum(0)
        if len(columns):
            torch.index_select(L, 1, columns, out=selected[block.units])
        if keep:
            kept.append(L)
    return Packed(y.square().view(2 * side, pairs).sum(0), trace, selected, y, slope, kept)


def packed_gradients(
    forms: Packed,
    hidden: Tensor,
    weight: Tensor,
    deltas: Tensor,
    d: int,
    columns: Tensor,
    grads: tuple[Tensor | None, Tensor | None, Tensor | None],
    layer_needed: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor]:
    """Return the gradients of hidden, weight, bias and deltas from those of quadratic, trace and selected.

    The gradients of the layer are a third of the work, so they are computed only if needed.
    """
    pairs, (grad_quadratic, grad_trace, grad_selected) = deltas.shape[1], grads
    grad_y = torch.zeros_like(forms.y) if grad_quadratic is None else forms.y * _doubled(grad_quadratic)
    doubled_grad_trace = None if grad_trace is None else _doubled(grad_trace)
    deltas_twice = torch.cat([deltas, deltas], 1)
    grad_hidden, grad_deltas = torch.zeros_like(hidden), torch.empty_like(deltas)
    grad_weight, grad_bias = (torch.empty_like(weight), weight.new_empty(len(weight))) if layer_needed else (None, None)
    for block, L in zip(_blocks(deltas, d), forms.blocks, strict=True):
        expanded = block.at_columns(grad_y)
        grad_L = block.at_rows(deltas_twice).mul_(expanded)
        sums = block.row_sums(expanded.mul_(L))
        torch.sum(sums.view(len(sums), 2, pairs), 1, out=grad_deltas[block.rows])
        if doubled_grad_trace is not None:
            grad_L.addcmul_(L, doubled_grad_trace)
        if grad_selected is not None:
            grad_L.index_add_(1, columns, grad_selected[block.units])
        grad_L.index_copy_(0, block.diagonal, grad_L.index_select(0, block.diagonal).mul_(forms.slope[block.rows]))
        torch.addmm(grad_hidden, weight[block.units].T, grad_L, out=grad_hidden)
        if grad_weight is not None and grad_bias is not None:
            torch.mm(grad_L, hidden.T, out=grad_weight[block.units])
            torch.sum(grad_L, 1, out=grad_bias[block.units])
    return grad_hidden, grad_weight, grad_bias, grad_deltas


def _doubled(grad: Tensor) -> Tensor:
    """Double a gradient [P] and repeat it for both orders: [2 P]."""
    grad = 2 * grad
    return torch.cat([grad, grad])


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
        pairs, factors, d = delta.shape
        both = hidden.permute(2, 1, 0).reshape(hidden.shape[2], 2 * pairs)
        deltas, columns = delta.flatten(1).T.contiguous(), columns_in_both_orders(rows, pairs)
        forms = packed_forms(both, weight, bias, deltas, d, epsilon, columns, differentiable)
        ctx.save_for_backward(hidden, weight, bias, delta, rows, both, deltas, *forms[:5], *forms.blocks)
        ctx.set_materialize_grads(False)
        ctx.epsilon, ctx.plain = epsilon, plain
        L = unpacked(forms.selected, factors, d)
        return forms.quadratic, forms.trace, L.view(2, len(rows), factors, d, d).transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, delta, rows, both, deltas, *forms = ctx.saved_tensors
        with torch.autocast(hidden.device.type, enabled=False):
            # Autograd enables gradients here only if a second derivative is needed (create_graph).
            if torch.is_grad_enabled():
                plain = functools.partial(ctx.plain, epsilon=ctx.epsilon, rows=rows)
                found = plain_gradients(plain, (hidden, weight, bias, delta), ctx.needs_input_grad[:4], gradients)
                return (*found, None, None, None, None)
            *given, grad_L = gradients
            grad_selected = None if grad_L is None else packed(grad_L.transpose(0, 1).flatten(0, 1))
            grad_both, grad_weight, grad_bias, grad_deltas = packed_gradients(
                Packed._make((*forms[:5], forms[5:])),
                both,
                weight,
                deltas,
                delta.shape[2],
                columns_in_both_orders(rows, len(delta)),
                (*given, grad_selected),  # type: ignore[arg-type]
                ctx.needs_input_grad[1],
            )
        grad_hidden = grad_both.view(hidden.shape[2], 2, len(delta)).permute(2, 1, 0)
        return grad_hidden, grad_weight, grad_bias, grad_deltas.T.reshape(delta.shape), None, None, None, None
