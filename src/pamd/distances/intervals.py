"""The length of a union of intervals, for many unions of few intervals at once."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from pamd.distances.packed import needs_plain, plain_gradients


def union_length(x: Tensor, y: Tensor, symmetric: bool) -> Tensor:
    """Return the length of the union over j of [x_j, max(x_j, y_j)]. x, y: [P, m, k], j = 1..m -> [P, k].

    With `symmetric`, it is the mean of both orders, x with y and y with x.
    """
    if needs_plain(x, y):
        return _plain(x, y, symmetric)[0]
    length: Tensor = _UnionLength.apply(x, y, symmetric, torch.is_grad_enabled())  # type: ignore[no-untyped-call]
    return length


def _plain(x: Tensor, y: Tensor, symmetric: bool) -> tuple[Tensor]:
    start, end, _ = _intervals(x, y, symmetric)
    S, E = start.sort(1).values, end.sort(1).values
    # Sort starts and ends separately. The k-th end is followed by a gap if the next start is larger: then k intervals
    # have started and k have ended. So the union is covered by the segments from a start to the next start or end.
    length = (torch.minimum(E[:, :-1], S[:, 1:]) - S[:, :-1]).sum(1) + (E[:, -1] - S[:, -1])
    return (length / 2 if symmetric else length,)


def _intervals(x: Tensor, y: Tensor, symmetric: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return starts, ends and the side of each interval: 1 if y < x, -1 if x < y, 0 if both are equal; [P, m, k] each.

    In the symmetric case, every j has an empty interval in one of the two orders, so m intervals are enough for both.
    Those of one order are moved above 0, and those of the other are mirrored below it. Their lengths stay the same.
    """
    side = (x - y).detach().sign_()
    if not symmetric:
        return x, torch.maximum(x, y), side
    low = torch.minimum(x.detach().amin(1, keepdim=True), y.detach().amin(1, keepdim=True))
    return (y - low).mul_(side), (x - low).mul_(side), side


class _UnionLength(torch.autograd.Function):
    """`_plain`, faster on a CPU: the sort is a network of minima and maxima on rows of memory [P, k].

    The length is a sum of some ends minus a sum of some starts, so its gradient is a choice of them. The backward pass
    carries the choice back through the network.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, symmetric: bool, differentiable: bool) -> Tensor:
        start, end, side = _intervals(x, y, symmetric)
        S, swaps_S = _sorted(start, differentiable)
        E, swaps_E = _sorted(end, differentiable)
        length = E[-1] - S[-1]
        for k in range(len(S) - 1):
            length += torch.minimum(E[k], S[k + 1]).sub_(S[k])
        if differentiable:
            # Whether a gap follows the k-th end, which is the end of a part of the union. The next start begins a part.
            gaps = [(S[k + 1] - E[k]).relu_().bool() for k in range(len(S) - 1)]
            ctx.save_for_backward(x, y, side, *gaps, *swaps_S, *swaps_E)
        ctx.symmetric = symmetric
        return length.mul_(0.5) if symmetric else length

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y, side, *kept = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph: a second derivative is needed
            plain = functools.partial(_plain, symmetric=ctx.symmetric)
            return (*plain_gradients(plain, (x, y), ctx.needs_input_grad[:2], (grad,)), None, None)
        m = x.shape[1]
        gaps, swaps = kept[: m - 1], kept[m - 1 :]
        one = torch.ones_like(grad, dtype=torch.bool)
        starts = _unsorted([one, *gaps], swaps[: len(swaps) // 2]).to(grad.dtype)
        ends = _unsorted([*gaps, one], swaps[len(swaps) // 2 :]).to(grad.dtype)
        if ctx.symmetric:
            side = side * (grad[:, None] / 2)  # the mean of both orders
            return ends.mul_(side), starts.mul_(side).neg_(), None, None
        ends.mul_(grad[:, None])
        at_x = (side + 1).mul_(0.5).mul_(ends)  # the end is x, y, or both
        return at_x - starts.mul_(grad[:, None]), ends.sub_(at_x), None, None


def _sorted(values: Tensor, differentiable: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Sort values [P, m, k] over m -> m tensors [P, k], and whether each comparator swapped, [P, k] each."""
    rows, swaps = list(values.unbind(1)), []
    for i, j in _comparators(len(rows)):
        low = torch.minimum(rows[i], rows[j])
        if differentiable:
            swaps.append((rows[i] - low).bool())  # A comparison takes twice the time.
        rows[i], rows[j] = low, torch.maximum(rows[i], rows[j])
    return rows, swaps


def _unsorted(rows: list[Tensor], swaps: list[Tensor]) -> Tensor:
    """Undo the swaps on m tensors [P, k] of bool -> [P, m, k], int8."""
    for (i, j), swapped in zip(reversed(_comparators(len(rows))), reversed(swaps), strict=True):
        change = (rows[i] ^ rows[j]).logical_and_(swapped)
        rows[i], rows[j] = rows[i] ^ change, rows[j] ^ change
    return torch.stack(rows, 1).view(torch.int8)  # Conversions from bool are slow.


@functools.lru_cache(maxsize=8)
def _comparators(m: int) -> list[tuple[int, int]]:
    """Return Batcher's odd-even merge sort of m values: pairs of positions i < j to put in order, one after another."""
    pairs = []
    size = 1
    while size < m:
        step = size
        while step:
            for first in range(step % size, m - step, 2 * step):
                for i in range(first, min(first + step, m - step)):
                    if i // (2 * size) == (i + step) // (2 * size):
                        pairs.append((i, i + step))
            step //= 2
        size *= 2
    return pairs
