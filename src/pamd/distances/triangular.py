"""Quadratic forms of packed lower-triangular factors, as one differentiable operation.

Written out by hand because it is the hot path: autograd would keep and add up several [N, d, d] tensors where one
does. `tests/distances/test_triangular.py` holds it to the textbook construction.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from pamd.distances.pairwise import rehu, rehu_slope
from pamd.errors import PamdError

__all__ = ["packed_size", "triangular_form"]

_PIECE_BYTES = 4 * 2**20
"""About how much memory the dense factors of a piece of the batch take."""


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
        lower = _lower(delta.shape[1], packed.device)
        y = torch.empty_like(delta, dtype=packed.dtype)
        squared_norm = packed.new_empty(len(packed))
        for piece in _pieces(packed, delta):
            L, _ = _dense(packed[piece], epsilon, lower)
            y[piece] = torch.bmm(delta[piece, None], L).squeeze(1)  # L^T delta
            squared_norm[piece] = torch.linalg.vector_norm(L.flatten(1), dim=1).square()
        ctx.save_for_backward(packed, delta, y, lower, rows)
        ctx.epsilon = epsilon
        ctx.set_materialize_grads(False)
        return y.square().sum(1), squared_norm, _dense(packed[rows], epsilon, lower)[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, Tensor, None, None]:
        # Autograd turns gradients on here only where a second derivative is wanted (create_graph).
        if torch.is_grad_enabled():
            raise PamdError("this distance is differentiable once; second derivatives (create_graph) are not available")
        with torch.autocast(ctx.saved_tensors[0].device.type, enabled=False):
            return _TriangularForm._gradients(ctx, *gradients)

    @staticmethod
    def _gradients(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, Tensor, None, None]:
        packed, delta, y, lower, rows = ctx.saved_tensors
        zeros = packed.new_zeros(len(packed))
        of_quadratic, of_norm = (zeros if g is None else 2 * g for g in gradients[:2])
        of_packed, of_delta = torch.empty_like(packed), torch.empty_like(delta)
        for piece in _pieces(packed, delta):
            L, diagonal = _dense(packed[piece], ctx.epsilon, lower)
            of_y = y[piece] * of_quadratic[piece, None]
            of_delta[piece] = torch.bmm(L, of_y[:, :, None]).squeeze(-1)
            of_L = L.mul_(of_norm[piece, None, None]).baddbmm_(delta[piece, :, None], of_y[:, None])
            of_packed[piece] = _repacked(of_L, diagonal, lower)
        if gradients[2] is not None:
            diagonal = _diagonal(packed[rows], lower, delta.shape[1])
            of_packed.index_add_(0, rows, _repacked(gradients[2].clone(), diagonal, lower))
        return of_packed, of_delta, None, None


def _pieces(packed: Tensor, delta: Tensor) -> list[slice]:
    """The batch in pieces whose factors stay in the cache: all at once they go out to memory and back."""
    count, d = delta.shape
    size = max(1, _PIECE_BYTES // (d * d * packed.element_size())) if packed.device.type == "cpu" else max(1, count)
    return [slice(start, start + size) for start in range(0, count, size)]


def _dense(packed: Tensor, epsilon: float, lower: Tensor) -> tuple[Tensor, Tensor]:
    """L [n, d, d] of packed [n, d(d+1)/2], and what its diagonal was before ReHU [n, d]."""
    d = (math.isqrt(8 * len(lower) + 1) - 1) // 2
    flat = packed.new_zeros(len(packed), d * d).index_copy_(1, lower, packed)
    diagonal = flat[:, :: d + 1].clone()
    flat[:, :: d + 1] = rehu(diagonal) + epsilon
    return flat.view(-1, d, d), diagonal


def _diagonal(packed: Tensor, lower: Tensor, d: int) -> Tensor:
    return packed[:, lower % (d + 1) == 0]


def _repacked(of_L: Tensor, diagonal: Tensor, lower: Tensor) -> Tensor:
    """The gradient [n, d(d+1)/2] of packed from that of L [n, d, d], which is overwritten."""
    flat = of_L.flatten(1)
    flat[:, :: of_L.shape[1] + 1] *= rehu_slope(diagonal)
    return flat.index_select(1, lower)


def _lower(d: int, device: torch.device) -> Tensor:
    """Positions [d(d+1)/2] of the lower triangle, row-major, in a flattened d x d matrix."""
    index = torch.tril_indices(d, d, device=device)
    return index[0] * d + index[1]
