"""Quadratic forms of packed lower-triangular factors, as one differentiable operation.

Written out by hand because it is the hot path: autograd would keep and add up several [N, d, d] tensors where one
does. `tests/distances/test_triangular.py` holds it to the textbook construction.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pamd.distances.pairwise import rehu, rehu_slope
from pamd.errors import PamdError

__all__ = ["packed_size", "triangular_form"]


def packed_size(d: int) -> int:
    """How many entries the lower triangle of a d x d matrix has, its diagonal included."""
    return d * (d + 1) // 2


def triangular_form(packed: Tensor, delta: Tensor, epsilon: float, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """|L^T delta|^2 [N], |L|_F^2 [N], and L itself [m, d, d] for the factors `rows` [m].

    packed [N, d(d+1)/2] is row-major; L's diagonal is ReHU of it, plus epsilon. delta: [N, d].
    """
    with torch.autocast(packed.device.type, enabled=False):  # what is squared and summed here needs float32
        quadratic, squared_norm, factor = _TriangularForm.apply(packed, delta, epsilon, rows)  # type: ignore[no-untyped-call]
    return quadratic, squared_norm, factor


class _TriangularForm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, packed: Tensor, delta: Tensor, epsilon: float, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        count, d = delta.shape
        lower = _lower(d, packed.device)
        flat = packed.new_zeros(count, d * d).index_copy_(1, lower, packed)
        diagonal = flat[:, :: d + 1].clone()
        flat[:, :: d + 1] = rehu(diagonal) + epsilon
        L = flat.view(count, d, d)
        y = torch.bmm(delta[:, None], L)  # [N, 1, d]: (L^T delta)^T
        ctx.save_for_backward(L, delta, y, diagonal, lower, rows)
        ctx.set_materialize_grads(False)
        return y.square().sum((1, 2)), torch.linalg.vector_norm(flat, dim=1).square(), L[rows]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, Tensor, None, None]:
        # Autograd turns gradients on here only where a second derivative is wanted (create_graph).
        if torch.is_grad_enabled():
            raise PamdError("this distance is differentiable once; second derivatives (create_graph) are not available")
        with torch.autocast(ctx.saved_tensors[0].device.type, enabled=False):
            return _TriangularForm._gradients(ctx, *gradients)

    @staticmethod
    def _gradients(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, Tensor, None, None]:
        L, delta, y, diagonal, lower, rows = ctx.saved_tensors
        of_quadratic, of_norm, of_factor = gradients
        count, d = delta.shape
        grad_L = torch.zeros_like(L) if of_norm is None else L * (2 * of_norm)[:, None, None]
        grad_delta = torch.zeros_like(delta)
        if of_quadratic is not None:
            grad_y = y * (2 * of_quadratic)[:, None, None]
            grad_L.baddbmm_(delta[:, :, None], grad_y)
            grad_delta = torch.bmm(L, grad_y.transpose(1, 2)).squeeze(-1)
        if of_factor is not None:
            grad_L.index_add_(0, rows, of_factor)
        flat = grad_L.view(count, d * d)
        flat[:, :: d + 1] *= rehu_slope(diagonal)
        return flat.index_select(1, lower), grad_delta, None, None


def _lower(d: int, device: torch.device) -> Tensor:
    """Positions [d(d+1)/2] of the lower triangle, row-major, in a flattened d x d matrix."""
    index = torch.tril_indices(d, d, device=device)
    return index[0] * d + index[1]
