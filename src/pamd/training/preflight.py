"""Forecast the memory and disk space of a run before its directory is created."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from pamd.agent import AgentConfig, build_parts, parameter_groups
from pamd.envs import least_shape, observes_states
from pamd.errors import CheckpointError, ConfigError, ResourceError
from pamd.replay import available_disk, available_memory, disk_taken, forecast
from pamd.runs.checkpoints import KEPT, list_checkpoints
from pamd.schema import flatten, to_tree
from pamd.training.config import TrainConfig
from pamd.training.session import device_of, replay_plan

__all__ = ["Needs", "check_run", "check_weights", "run_needs"]

ACTIONS = 1
"""A lower bound on the action dimension, which has little effect. Its value is known only after the task is built."""
THREADS_PER_CORE = 4
"""The maximum number of threads per core. More threads would only wait for each other."""

_WIDTHS = (
    "learner.options.hidden",
    "encoder.options.filters",
    "encoder.options.hidden",
    "method.latent_dim",
    "method.transition.members",
    "method.metric.distance.options.hidden",
    "env.size",
    "env.frame_stack",
)
_FIELDS = {
    "replay": ("replay.capacity", "checkpoint_every", "decisions", "env.size"),
    "networks": _WIDTHS,
    "checkpoints": _WIDTHS,
    "batch": ("learner.options.batch", "env.size", "env.frame_stack", "encoder.options.filters"),
}
"""The config fields that determine each share."""


class Needs(NamedTuple):
    """The minimum number of bytes that a run requires, by purpose."""

    memory: dict[str, int]
    disk: dict[str, int]


def check_run(config: TrainConfig, directory: Path) -> None:
    """Raise ResourceError with the forecast if there is not enough memory or disk for the run in `directory`."""
    cores, threads = os.cpu_count() or 1, config.runtime.threads
    if threads is not None and threads > THREADS_PER_CORE * cores:
        most = f"{THREADS_PER_CORE * cores} on a machine with {cores} cores"
        raise ConfigError(f"runtime: threads must be at most {most}, got {threads}")
    needs = run_needs(config)
    _check(config, "memory", needs.memory, available_memory())
    kept = sum(_size(path) for path in list_checkpoints(directory / "checkpoints"))
    _check(config, "disk", needs.disk, available_disk(directory) + disk_taken(directory / "replay") + kept)


def _size(saved: Path) -> int:
    """Return the size of a checkpoint in bytes, or 0 if it is not a directory. Links in it are not followed."""
    return sum(file.lstat().st_size for file in saved.iterdir()) if saved.is_dir() else 0


def run_needs(config: TrainConfig) -> Needs:
    """Forecast the size of the replay, networks with gradients and optimizer states, a batch, and checkpoints."""
    channels, *rest = least_shape(config.env)
    capacity, margin = replay_plan(config)
    dtype = "float32" if observes_states(config.env.task) else "uint8"
    replay = forecast(capacity, (channels // config.env.frame_stack, *rest), ACTIONS, margin, dtype)
    sizes = _sizes(config, least_shape(config.env), ACTIONS)
    saved = sizes.weights + sizes.moments
    memory = {"replay": replay.bytes_memory, "checkpoints": saved}
    if device_of(config.runtime.device).type == "cpu":
        memory |= {"networks": saved + sizes.gradients, "batch": _batch(config, sizes.features)}
    # The kept checkpoints still exist while a new one is written.
    return Needs(memory, {"replay": replay.bytes_disk, "checkpoints": (KEPT + 1) * saved})


class _Sizes(NamedTuple):
    """The bytes of the networks, and the feature dimension of the encoder."""

    weights: int
    gradients: int
    moments: int
    features: int


def check_weights(
    config: TrainConfig, weights: Mapping[str, torch.Tensor], observation_shape: tuple[int, ...], action_dim: int
) -> None:
    """Raise CheckpointError unless the networks have as many bytes as `weights`. This allocates no memory."""
    expected, given = _sizes(config, observation_shape, action_dim).weights, _bytes(weights.values())
    if expected != given:
        raise CheckpointError(f"the networks of the config have {expected:,} bytes, got {given:,} bytes of weights")


def _sizes(config: TrainConfig, observation_shape: tuple[int, ...], action_dim: int) -> _Sizes:
    """Return the sizes of the networks. They are linear in the ensemble size, so two members determine them."""
    agent, transition = config.agent, config.method.term("transition")
    members = transition.members if transition is not None and transition.kind == "ensemble" else 1
    if members <= 2:
        return _build_on_meta(config, agent, observation_shape, action_dim)
    fewer = (dataclasses.replace(agent, method=agent.method.with_term("transition", members=n)) for n in (1, 2))
    one, two = (_build_on_meta(config, made, observation_shape, action_dim) for made in fewer)
    return _Sizes(*(a + (members - 1) * (b - a) for a, b in zip(one, two, strict=True)))


def _build_on_meta(
    config: TrainConfig, agent: AgentConfig, observation_shape: tuple[int, ...], action_dim: int
) -> _Sizes:
    try:
        with torch.device("meta"), _WithoutValues():
            parts = build_parts(agent, observation_shape, action_dim)
    except (RuntimeError, OverflowError, TypeError, ValueError, MemoryError) as error:
        reason = str(error).splitlines()[0]
        raise ResourceError(f"the networks cannot be built: {reason} ({_values(config, _WIDTHS)})") from None
    stepped = [p for groups in parameter_groups(agent, parts).values() for group in groups for p in group["params"]]
    known = {id(p) for p in stepped}
    stepped += [p for p in parts.learner.parameters() if p.requires_grad and id(p) not in known]
    return _Sizes(
        weights=_bytes(parts.modules().state_dict().values()),
        gradients=_bytes({id(p): p for p in stepped}.values()),
        moments=2 * _bytes(stepped),  # Adam's moments, in each optimizer that updates the parameter
        features=parts.representation.encoder.feature_dim,
    )


_ELEMENTWISE = (torch.log, torch.Tensor.log)
"""Functions that keep the shape and are slow on torch's meta device."""


class _WithoutValues(TorchFunctionMode):
    """Rejects tensors that exceed the available memory. Skips orthogonal initialization, because only shapes matter."""

    def __init__(self) -> None:
        super().__init__()
        self._most = available_memory()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.linalg.qr:
            (matrix,) = args
            return matrix, matrix.new_empty(matrix.shape[-1], matrix.shape[-1])
        if func in _ELEMENTWISE:
            return args[0]
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and (size := result.numel() * result.element_size()) > self._most:
            raise MemoryError(f"one tensor {list(result.shape)} takes {size / 1e9:,.1f} GB of memory")
        return result


def _batch(config: TrainConfig, features: int) -> int:
    """Return the bytes of a batch as uint8 and float32, and its features, for states and next states."""
    pixels = math.prod(least_shape(config.env))
    batch: int = config.learner.options.batch
    return 2 * batch * (pixels + 4 * pixels + 4 * features)


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _check(config: TrainConfig, what: str, needs: Mapping[str, int], available: int) -> None:
    total = sum(needs.values())
    if total <= available:
        return
    largest = max(needs, key=lambda name: needs[name])
    shares = ", ".join(f"{name} {amount / 1e9:,.1f} GB" for name, amount in needs.items())
    hint = ", or use --set replay.storage=mmap" if (what, largest) == ("memory", "replay") else ""
    raise ResourceError(
        f"the run requires at least {total / 1e9:,.1f} GB of {what} ({shares}), and {available / 1e9:,.1f} GB are "
        f"available: lower one of {_values(config, _FIELDS[largest])}{hint}"
    )


def _values(config: TrainConfig, names: tuple[str, ...]) -> str:
    """Format the fields that `config` has, and their values, in the syntax of `--set`."""
    values = flatten(to_tree(config))
    present = [name for name in names if values.get(name) is not None]
    return ", ".join(f"{name.replace('options.', '')}={values[name]}" for name in present)
