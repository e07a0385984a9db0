"""The whole head as one operation: pair network, triangular factors, trace, root and auxiliary term.

At small sizes, a head made of ordinary operations spends most of its time on autograd's bookkeeping. Here, the whole
head is one node of the graph, and its backward pass is written by hand. It computes the same result as a plain function
of the same arguments (`PredictedForm` in `pamd.py`), which is used instead if more than a first derivative is needed.
`tests/distances/test_head.py` compares the two.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pamd.distances.derivatives import autocasts, needs_plain, plain_gradients
from pamd.distances.packing import columns_in_both_orders, packed, unpacked
from pamd.distances.quadratic import QuadraticConfig
from pamd.distances.triangular import Packed, packed_forms, packed_gradients

__all__ = ["HeadConstants", "can_fuse", "fused_head", "head_constants", "layers_of"]

Plain = Callable[..., tuple[Tensor, Tensor | None]]


@dataclass(frozen=True)
class HeadConstants:
    """The constants of a head. Most names are those of `QuadraticConfig`."""

    block: int
    """The side b of each factor on the diagonal of L; d if there is only one factor."""
    diagonal_epsilon: float
    ridge: float
    trace_offset: float
    """The constant added to tr G: the trace of the ridge plus the trace epsilon."""
    trace: float | None
    """The trace of G_tilde; None if the form is not normalized."""
    trace_detached: bool
    clamped: bool
    """True if the guard of the root is a clamp."""
    root_epsilon: float
    aux_weight: float
    """The weight of the auxiliary term, already divided by the divisors of aux_norm and aux_probes."""


def head_constants(config: QuadraticConfig, d: int, block: int) -> HeadConstants:
    """Return the constants of a config for d latent coordinates and factors of `block` x `block`."""
    ridge = config.ridge or 0.0
    return HeadConstants(
        block=block,
        diagonal_epsilon=config.diagonal_epsilon,
        ridge=ridge,
        trace_offset=d * ridge + config.trace_epsilon,
        trace=config.trace_of(d) if config.trace_normalised else None,
        trace_detached=config.trace_detached,
        clamped=config.root == "clamp",
        root_epsilon=config.root_epsilon,
        aux_weight=config.aux_weight / ((config.aux_probes or 1) * (d * d if config.aux_norm == "mean" else 1)),
    )


def can_fuse(net: nn.Sequential, z: Tensor, z_prime: Tensor) -> bool:
    """Return True if the head can run as one operation: nothing else accesses the layers, their inputs or outputs."""
    if autocasts(z) or z.dtype not in (torch.float32, torch.float64):
        return False
    for layer in net._modules.values():
        if type(layer) not in (nn.Linear, nn.ReLU) or layer._forward_hooks or layer._forward_pre_hooks:
            return False
        if layer._backward_hooks or layer._backward_pre_hooks:
            return False
    return not needs_plain(z, z_prime, *layers_of(net))


def layers_of(net: nn.Sequential) -> list[Tensor]:
    """Return the weights and biases in order. `net.parameters()` is ten times slower, because it builds names."""
    return [p for layer in net._modules.values() for p in layer._parameters.values()]  # type: ignore[misc]


def fused_head(
    plain: Plain,
    z: Tensor,
    z_prime: Tensor,
    layers: Sequence[Tensor],
    constants: HeadConstants,
    rows: Tensor | None = None,
    v: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Compute plain(z, z_prime, *layers): values [P], and the auxiliary term [] if vectors v [m, d, n] are given.

    layers: weights and biases of the three layers of a pair network. v: vectors of the distinct pairs `rows` [m].
    """
    inputs = (z, z_prime, *layers)
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    value, penalty = _FusedHead.apply(plain, constants, rows, v, keep, *inputs)  # type: ignore[no-untyped-call]
    return value, None if v is None else penalty


class _FusedHead(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        plain: Plain,
        c: HeadConstants,
        rows: Tensor | None,
        v: Tensor | None,
        keep: bool,
        z: Tensor,
        z_prime: Tensor,
        *layers: Tensor,
    ) -> tuple[Tensor, Tensor]:
        weight_1, bias_1, weight_2, bias_2, weight_3, bias_3 = layers
        pair, swapped = torch.cat([z, z_prime]), torch.cat([z_prime, z])
        x = torch.cat([pair, swapped], 1)  # [N, 2d], N = 2 P
        hidden_1 = torch.addmm(bias_1[:, None], weight_1, x.T).relu_()  # [h, N]
        hidden_2 = torch.addmm(bias_2[:, None], weight_2, hidden_1).relu_()
        deltas = (z - z_prime).T.contiguous()  # [d, P]
        columns = columns_in_both_orders(
            torch.empty(0, dtype=torch.long, device=z.device) if rows is None else rows, len(z)
        )
        forms = packed_forms(hidden_2, weight_3, bias_3, deltas, c.block, c.diagonal_epsilon, columns, keep)
        form = forms.quadratic + c.ridge * deltas.square().sum(0) if c.ridge else forms.quadratic  # eq:ridge
        total = forms.trace + c.trace_offset
        ratio = form if c.trace is None else form / (total if c.trace == 1 else total / c.trace)  # eq:trace_norm
        value = (ratio.clamp_min(c.root_epsilon) if c.clamped else ratio + c.root_epsilon).sqrt()  # eq:plugin_distance
        drawn = () if rows is None or v is None else _deviation(forms, total, rows, v, c)
        penalty = drawn[0].square().sum() * (-c.aux_weight / len(drawn[0])) if drawn else value.new_zeros(())
        if keep:
            ctx.save_for_backward(
                z, z_prime, *layers, x, hidden_1, hidden_2, deltas, total, ratio, value, *forms[:5], *forms.blocks
            )
            ctx.plain, ctx.constants, ctx.rows, ctx.v, ctx.drawn, ctx.columns = plain, c, rows, v, drawn, columns
            ctx.set_materialize_grads(False)
        return value, penalty

    @staticmethod
    def backward(ctx: Any, grad_value: Tensor | None, grad_penalty: Tensor | None) -> tuple[Tensor | None, ...]:
        found: Sequence[Tensor | None]
        device = ctx.columns.device.type
        with torch.autocast(device, enabled=False) if autocasts(ctx.columns) else contextlib.nullcontext():
            # Autograd enables gradients here only if a second derivative is needed (create_graph).
            if torch.is_grad_enabled():
                given = [grad_value, grad_penalty]
                found = plain_gradients(ctx.plain, ctx.saved_tensors[:8], ctx.needs_input_grad[5:], given)
            else:
                found = _gradients(ctx, grad_value, grad_penalty)
        return (None, None, None, None, None, *found)


def _deviation(forms: Packed, total: Tensor, rows: Tensor, v: Tensor, c: HeadConstants) -> tuple[Tensor, ...]:
    """Return (G_tilde - I/d) v of the pairs `rows`, transposed [m, K, n, b], and the tensors for its gradient."""
    (m, d, n), b = v.shape, c.block
    L = unpacked(forms.selected, d // b, b).view(-1, b, b)  # [2 m K, b, b]
    across_v = v.view(m, d // b, b, n).mT  # [m, K, n, b]; products with few rows are faster than with few columns
    both_v = across_v.expand(2, m, d // b, n, b).reshape(-1, n, b)
    v_L = torch.bmm(both_v, L)
    G_v = torch.bmm(v_L, L.mT).view(2, m, d // b, n, b).sum(0)
    sizes = total.index_select(0, rows)[:, None, None, None]
    deviation = G_v.add_(across_v, alpha=c.ridge).div_(sizes).sub_(across_v, alpha=1 / d)
    return deviation, L, both_v, v_L, across_v, sizes


def _gradients(ctx: Any, grad_value: Tensor | None, grad_penalty: Tensor | None) -> Sequence[Tensor | None]:
    """Return the gradients with respect to z, z_prime and the layers."""
    c, needed = ctx.constants, ctx.needs_input_grad[5:]
    z, _, weight_1, _, weight_2, _, weight_3, _, x, hidden_1, hidden_2, deltas, total, ratio, value, *saved = (
        ctx.saved_tensors
    )
    forms = Packed._make((*saved[:5], saved[5:]))
    grad_form, grad_trace = _of_value(grad_value, total, ratio, value, c)
    grad_selected = None
    if ctx.drawn and grad_penalty is not None:
        grad_selected, grad_rows = _of_penalty(grad_penalty, ctx.drawn, c)
        grad_trace = torch.zeros_like(total) if grad_trace is None else grad_trace
        grad_trace.index_add_(0, ctx.rows, grad_rows)
    given = (grad_form, grad_trace, grad_selected)
    grad_hidden_2, grad_weight_3, grad_bias_3, grad_deltas = packed_gradients(
        forms, hidden_2, weight_3, deltas, c.block, ctx.columns, given, needed[6]
    )
    if c.ridge and grad_form is not None:
        grad_deltas.addcmul_(deltas, grad_form, value=2 * c.ridge)
    grad_2 = torch.ops.aten.threshold_backward(grad_hidden_2, hidden_2, 0)
    grad_1 = torch.ops.aten.threshold_backward(weight_2.T @ grad_2, hidden_1, 0)
    grad_layers = (
        *((grad_1 @ x, grad_1.sum(1)) if needed[2] else (None, None)),
        *((grad_2 @ hidden_1.T, grad_2.sum(1)) if needed[4] else (None, None)),
        *(grad_weight_3, grad_bias_3),
    )
    if not (needed[0] or needed[1]):
        return (None, None, *grad_layers)
    pairs, d = z.shape
    first, second = (grad_1.T @ weight_1).view(2, pairs, 2, d).unbind(0)  # [P, 2, d]: for z and z', for z' and z
    grad_delta = grad_deltas.T
    return first[:, 0] + second[:, 1] + grad_delta, first[:, 1] + second[:, 0] - grad_delta, *grad_layers


def _of_value(
    grad_value: Tensor | None, total: Tensor, ratio: Tensor, value: Tensor, c: HeadConstants
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients [P] with respect to the form and the trace."""
    if grad_value is None:
        return None, None
    grad_ratio = grad_value / value * 0.5
    if c.clamped:
        grad_ratio *= ratio >= c.root_epsilon
    if c.trace is None:
        return grad_ratio, None
    grad_form = grad_ratio * c.trace / total
    return grad_form, None if c.trace_detached else grad_ratio.mul_(ratio).div_(total).neg_()


def _of_penalty(grad_penalty: Tensor, drawn: tuple[Tensor, ...], c: HeadConstants) -> tuple[Tensor, Tensor]:
    """Return the gradients with respect to the drawn factors, packed, and to the traces [m] of their pairs."""
    deviation, L, both_v, v_L, across_v, sizes = drawn
    m, factors, n, b = deviation.shape
    grad_G_v = deviation * (grad_penalty * (-2 * c.aux_weight / m)) / sizes
    G_tilde_v = torch.add(deviation, across_v, alpha=1 / (factors * b))
    grad_rows = -(grad_G_v * G_tilde_v).sum((1, 2, 3))
    both = grad_G_v.expand(2, m, factors, n, b).reshape(-1, n, b)
    # G v = L (L^T v). One product computes the gradient of L, the sum over the left and the right factor.
    left, right = torch.cat([both, both_v], 1), torch.cat([v_L, torch.bmm(both, L)], 1)
    return packed(torch.bmm(left.mT, right).view(2 * m, factors, b, b)), grad_rows
