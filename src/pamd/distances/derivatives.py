"""Fallbacks from a fast operation to its plain form, for tracers, transforms and second derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

__all__ = ["needs_plain", "plain_gradients"]


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

    The backward pass of a fast operation calls this function if autograd runs with create_graph.
    """
    # Aliases prevent autograd from following a path from one input to another. Both may come from the same latents.
    aliases = [x.view_as(x) for x in inputs]
    given = [(output, grad) for output, grad in zip(plain(*aliases), grad_outputs, strict=True) if grad is not None]
    outputs, grads = [output for output, _ in given], [grad for _, grad in given]
    wanted = [x for x, need in zip(aliases, needed, strict=True) if need]
    found = iter(torch.autograd.grad(outputs, wanted, grads, create_graph=True, allow_unused=True))
    return [next(found) if need else None for need in needed]
