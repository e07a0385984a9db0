"""Gradient steps, optimizer states and target networks, for learners and representations."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from pamd.errors import CheckpointError
from pamd.types import Loss

_Network = TypeVar("_Network", bound=nn.Module)


def adam(
    parameters: Iterable[Tensor] | Iterable[dict[str, object]], learning_rate: float, **options: object
) -> torch.optim.Adam:
    """Return a fused Adam optimizer."""
    return torch.optim.Adam(parameters, lr=learning_rate, fused=True, **options)  # type: ignore[arg-type]


def optimizer_step(losses: Sequence[Loss], optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Make one step of the optimizers on the sum of the losses. Parameters outside the optimizers get no gradient."""
    parameters = {id(p): p for o in optimizers for group in o.param_groups for p in group["params"]}
    for parameter in parameters.values():
        parameter.grad = None
    total = functools.reduce(torch.add, [loss.value for loss in losses])
    total.backward(inputs=list(parameters.values()))
    for optimizer in optimizers:
        optimizer.step()


def expectile_loss(value: Tensor, target: Tensor, level: float, reduction: str = "mean") -> Tensor:
    """Return |level - 1(e < 0)| e^2 for e = target - value: its mean, or [...] with reduction "none".

    The value that minimizes it is the expectile of the target: the mean at level 0.5, above the mean at higher levels.
    """
    error = target - value
    loss = (level - (error < 0).to(error.dtype)).abs() * error.square()
    return loss if reduction == "none" else loss.mean()


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load a state whose names end in ".INDEX.FIELD". Raise CheckpointError if a tensor does not fit its parameter."""
    parameters = {str(i): p for i, p in enumerate(p for group in optimizer.param_groups for p in group["params"])}
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        *_, index, field = name.split(".")
        like = parameters.get(index)
        if like is None:
            raise CheckpointError(f"the tensor {name!r} belongs to no parameter: there are {len(parameters)}")
        if value.dim() and (value.shape, value.dtype) != (like.shape, like.dtype):
            expected, got = (f"{list(one.shape)} {one.dtype}" for one in (like, value))
            raise CheckpointError(f"the tensor {name!r} must be {expected}, got {got}")
        # A file does not store the memory order, and the fused step reads moments in the memory order of the weights.
        copied = value.clone() if value.shape != like.shape else torch.empty_like(like).copy_(value)
        state.setdefault(int(index), {})[field] = copied
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def target_copy(network: _Network) -> _Network:
    """Return a copy in evaluation mode that no optimizer trains. `ema_update` updates it."""
    return copy.deepcopy(network).requires_grad_(False).eval()


@torch.no_grad()
def ema_update(target: nn.Module, online: nn.Module, tau: float) -> None:
    """Move the target network toward the online network by a fraction tau; 1 copies it. Buffers are always copied."""
    for buffer, source in zip(target.buffers(), online.buffers(), strict=True):
        buffer.copy_(source)
    targets: list[Tensor] = list(target.parameters())
    if targets:  # a fixed norm has no parameters
        torch._foreach_lerp_(targets, list[Tensor](online.parameters()), tau)
