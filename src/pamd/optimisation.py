"""Descent steps, optimiser states and slow copies: what learners and representations share."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from pamd.errors import CheckpointError
from pamd.types import Loss

__all__ = ["adam", "descend", "follow", "load_optimiser", "slow_copy"]

Network = TypeVar("Network", bound=nn.Module)


def adam(parameters: Iterable[Tensor], learning_rate: float, **options: object) -> torch.optim.Adam:
    """A fused Adam."""
    return torch.optim.Adam(parameters, lr=learning_rate, fused=True, **options)  # type: ignore[arg-type]


def descend(losses: Sequence[Loss], optimisers: Sequence[torch.optim.Optimizer]) -> None:
    """One step of the optimisers on the sum of the losses. Parameters outside the optimisers get no gradient."""
    parameters = {id(p): p for o in optimisers for group in o.param_groups for p in group["params"]}
    for optimiser in optimisers:
        optimiser.zero_grad()
    total = functools.reduce(torch.add, [loss.value for loss in losses])
    # Autocast is for forward passes. A backward pass takes the types of its forward pass.
    with torch.autocast(total.device.type, enabled=False):
        total.backward(inputs=list(parameters.values()))
        for optimiser in optimisers:
            optimiser.step()


def load_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load a state whose names end in ".INDEX.FIELD"; CheckpointError where a tensor does not fit its parameter."""
    parameters = {str(i): p for i, p in enumerate(p for group in optimiser.param_groups for p in group["params"])}
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        *_, index, field = name.split(".")
        like = parameters.get(index)
        if like is None:
            raise CheckpointError(f"the tensor {name!r} belongs to no parameter: there are {len(parameters)}")
        if value.dim() and (value.shape, value.dtype) != (like.shape, like.dtype):
            wanted, came = (f"{list(one.shape)} {one.dtype}" for one in (like, value))
            raise CheckpointError(f"the tensor {name!r} must be {wanted}, got {came}")
        # A file does not keep the memory order, and the fused step reads moments in the order of the weights.
        own = value.clone() if value.shape != like.shape else torch.empty_like(like).copy_(value)
        state.setdefault(int(index), {})[field] = own
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


def slow_copy(network: Network) -> Network:
    """A copy that no optimiser trains, in evaluation mode; `follow` moves it."""
    return copy.deepcopy(network).requires_grad_(False).eval()


@torch.no_grad()
def follow(slow: nn.Module, fast: nn.Module, tau: float) -> None:
    """Move the slow copy towards the fast network by a fraction tau; 1 copies. Buffers are copied."""
    for target, source in zip(slow.buffers(), fast.buffers(), strict=True):
        target.copy_(source)
    targets: list[Tensor] = list(slow.parameters())
    sources: list[Tensor] = list(fast.parameters())
    if targets:  # a fixed norm has none
        torch._foreach_lerp_(targets, sources, tau)
