"""Gradient steps, optimizer states and slow copies, for learners and representations."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from pamd.errors import CheckpointError
from pamd.types import Loss

__all__ = ["adam", "descend", "follow", "load_optimizer", "slow_copy"]

Network = TypeVar("Network", bound=nn.Module)

_Gathered = tuple[dict[str, Any], list[Tensor], list[Tensor], list[Tensor], Tensor, tuple[Tensor, ...]]
"""A parameter group, its parameters, both moments, and the step counts as one tensor and as views of it."""


def adam(parameters: Iterable[Tensor], learning_rate: float, **options: object) -> torch.optim.Adam:
    """Return a fused Adam optimizer."""
    return _Adam(parameters, lr=learning_rate, fused=True, **options)  # type: ignore[arg-type]


class _Adam(torch.optim.Adam):
    """torch's fused Adam, but it gathers its state once. Gathering it at every step takes longer than a small step."""

    _gathered: list[_Gathered] | None = None

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self._gathered = None
        super().add_param_group(param_group)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._gathered = None
        super().load_state_dict(state_dict)

    def step(self, closure: Any = None) -> Any:
        whole = closure is None and all(p.grad is not None for group in self.param_groups for p in group["params"])
        if not whole or self._gathered is None or torch.compiler.is_compiling():
            result = super().step(closure)
            self._gathered = self._gather() if whole else None
            return result
        with torch.no_grad():
            for group, parameters, first, second, counts, steps in self._gathered:
                counts += 1
                torch._fused_adam_(
                    parameters,
                    [p.grad for p in parameters if p.grad is not None],
                    first,
                    second,
                    [],
                    steps,
                    lr=group["lr"],
                    beta1=group["betas"][0],
                    beta2=group["betas"][1],
                    weight_decay=group["weight_decay"],
                    eps=group["eps"],
                    amsgrad=False,
                    maximize=False,
                )
        return None

    def _gather(self) -> list[_Gathered]:
        """Return each group's parameters and state. Steps become views of one tensor, so one addition counts all."""

        def of(group: dict[str, Any], name: str) -> list[Tensor]:
            return [self.state[p][name] for p in group["params"]]

        gathered = []
        for group in self.param_groups:
            counts = torch.stack(of(group, "step"))
            steps = counts.unbind()
            for parameter, step in zip(group["params"], steps, strict=True):
                self.state[parameter]["step"] = step
            gathered.append((group, group["params"], of(group, "exp_avg"), of(group, "exp_avg_sq"), counts, steps))
        return gathered


def descend(losses: Sequence[Loss], optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Make one step of the optimizers on the sum of the losses. Parameters outside the optimizers get no gradient."""
    parameters = {id(p): p for o in optimizers for group in o.param_groups for p in group["params"]}
    for parameter in parameters.values():
        parameter.grad = None
    total = functools.reduce(torch.add, [loss.value for loss in losses])
    # Autocast is for forward passes. A backward pass uses the types of its forward pass.
    with torch.autocast(total.device.type, enabled=False):
        total.backward(inputs=list(parameters.values()))
        for optimizer in optimizers:
            optimizer.step()


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
            wanted, got = (f"{list(one.shape)} {one.dtype}" for one in (like, value))
            raise CheckpointError(f"the tensor {name!r} must be {wanted}, got {got}")
        # A file does not store the memory order, and the fused step reads moments in the memory order of the weights.
        copied = value.clone() if value.shape != like.shape else torch.empty_like(like).copy_(value)
        state.setdefault(int(index), {})[field] = copied
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def slow_copy(network: Network) -> Network:
    """Return a copy in evaluation mode that no optimizer trains. `follow` updates it."""
    return copy.deepcopy(network).requires_grad_(False).eval()


@torch.no_grad()
def follow(slow: nn.Module, fast: nn.Module, tau: float) -> None:
    """Move the slow copy toward the fast network by a fraction tau; 1 copies it. Buffers are always copied."""
    (targets, target_buffers), (sources, source_buffers) = _tensors(slow), _tensors(fast)
    for target, source in zip(target_buffers, source_buffers, strict=True):
        target.copy_(source)
    if targets:  # a fixed norm has no parameters
        torch._foreach_lerp_(targets, sources, tau)


def _tensors(network: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """Return parameters and buffers, each once. The module's own iterators take ten times as long: they build names."""
    parameters: dict[int, Tensor] = {}
    buffers: dict[int, Tensor] = {}

    def collect(module: nn.Module) -> None:
        parameters.update((id(p), p) for p in module._parameters.values() if p is not None)
        buffers.update((id(b), b) for b in module._buffers.values() if b is not None)
        for child in module._modules.values():
            if child is not None:
                collect(child)

    collect(network)
    return list(parameters.values()), list(buffers.values())
