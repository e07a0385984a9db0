"""Forecast the memory and disk space of a run before its directory is created.

The networks are built on torch's meta device, where a tensor has a shape but no memory.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from pamd.agent import build_parts, parameter_groups
from pamd.envs import least_shape, observes_states
from pamd.errors import CheckpointError, ConfigError, PamdError, ResourceError
from pamd.replay import available_disk, available_memory, disk_taken, forecast
from pamd.replay.files import Manifest
from pamd.replay.layout import StorageName
from pamd.runs.checkpoints import KEPT, list_checkpoints
from pamd.training.config import TrainConfig
from pamd.training.session import device_of, replay_plan

ACTIONS = 1
"""A lower bound on the action dimension, which has little effect. Its value is known only after the task is built."""
_THREADS_PER_CORE = 4
"""The maximum number of threads per core. More threads would only wait for each other."""
_SHARE = 0.9
"""The share of the free memory that a run with storage `auto` may plan with. A forecast is a lower bound."""

_WIDTHS = "the widths of learner, encoder and method, env.size or env.frame_stack"
_HINTS = {
    "replay": "replay.capacity, checkpoint_every or env.size, or use --storage mmap if memory is short",
    "networks": _WIDTHS,
    "checkpoints": _WIDTHS,
    "batch": "learner.batch, env.size, env.frame_stack or the width of the encoder",
}
"""What to lower if a share is too large."""


class Needs(NamedTuple):
    """The minimum number of bytes that a run requires, by purpose."""

    memory: dict[str, int]
    disk: dict[str, int]


def check_run(config: TrainConfig, directory: Path) -> StorageName:
    """Return where the run in `directory` stores the frames of its replay.

    Raises ResourceError with the forecast if there is not enough memory or disk.
    """
    cores, threads = os.cpu_count() or 1, config.runtime.threads
    if threads is not None and threads > _THREADS_PER_CORE * cores:
        most = f"{_THREADS_PER_CORE * cores} on a machine with {cores} cores"
        raise ConfigError(f"runtime: threads must be at most {most}, got {threads}")
    storage = _choose_storage(config, directory)
    needs = run_needs(config, storage)
    _check("memory", needs.memory, available_memory())
    saved = [path for path in list_checkpoints(directory / "checkpoints") if path.is_dir()]
    kept = sum(file.lstat().st_size for path in saved for file in path.iterdir())
    _check("disk", needs.disk, available_disk(directory) + disk_taken(directory / "replay") + kept)
    return storage


def _choose_storage(config: TrainConfig, directory: Path) -> StorageName:
    """Return the storage of the config. `auto` is memory if the whole run fits, and a file otherwise.

    A run that began with a file keeps it.
    """
    if config.replay.storage != "auto":
        return config.replay.storage
    with contextlib.suppress(PamdError):  # There is no replay yet, or it is refused with a reason when it is opened.
        if Manifest.load(directory / "replay").layout.storage == "mmap":
            return "mmap"
    memory = min(available_memory(), config.runtime.memory or sys.maxsize)
    return "memory" if sum(run_needs(config, "memory").memory.values()) <= _SHARE * memory else "mmap"


def run_needs(config: TrainConfig, storage: StorageName | None = None) -> Needs:
    """Forecast the size of the replay, networks with gradients and optimizer states, a batch, and checkpoints.

    `storage` replaces that of the config.
    """
    shape = least_shape(config.env)
    capacity, margin = replay_plan(config, storage)
    frame = (shape[0] // config.env.frame_stack, *shape[1:])
    dtype = "float32" if observes_states(config.env.task) else "uint8"
    replay = forecast(capacity, frame, ACTIONS, margin, dtype)
    sizes = _sizes(config, shape, ACTIONS)
    memory = {"replay": replay.bytes_memory, "checkpoints": sizes.saved}
    if device_of(config.runtime.device).type == "cpu":
        # A batch as uint8 and float32, and its features, for states and next states.
        pixels, batch = math.prod(shape), config.learner.options.batch
        memory |= {
            "networks": sizes.saved + sizes.gradients,
            "batch": 2 * batch * (pixels + 4 * pixels + 4 * sizes.features),
        }
    # The kept checkpoints still exist while a new one is written.
    return Needs(memory, {"replay": replay.bytes_disk, "checkpoints": (KEPT + 1) * sizes.saved})


def check_weights(
    config: TrainConfig, weights: Mapping[str, torch.Tensor], observation_shape: tuple[int, ...], action_dim: int
) -> None:
    """Raise CheckpointError unless the networks have as many bytes as `weights`. This allocates no memory."""
    expected, size = _sizes(config, observation_shape, action_dim).weights, _bytes(weights.values())
    if expected != size:
        raise CheckpointError(f"the networks of the config have {expected:,} bytes, got {size:,} bytes of weights")


class _Sizes(NamedTuple):
    """The bytes of the networks, and the feature dimension of the encoder."""

    weights: int
    saved: int
    """The weights, and Adam's two moments in each optimizer that updates a parameter."""
    gradients: int
    features: int


def _sizes(config: TrainConfig, observation_shape: tuple[int, ...], action_dim: int) -> _Sizes:
    try:
        with torch.device("meta"), _OnlyShapes():
            parts = build_parts(config.agent, observation_shape, action_dim)
    except (RuntimeError, OverflowError, TypeError, ValueError, MemoryError) as error:
        raise ResourceError(f"the networks cannot be built: {str(error).splitlines()[0]}; lower {_WIDTHS}") from None
    groups = parameter_groups(config.agent, parts).values()
    stepped = [p for group in groups for part in group for p in part["params"]]
    known = {id(p) for p in stepped}
    stepped += [p for p in parts.learner.parameters() if p.requires_grad and id(p) not in known]
    weights = _bytes(parts.modules().state_dict().values())
    return _Sizes(
        weights,
        weights + 2 * _bytes(stepped),
        _bytes({id(p): p for p in stepped}.values()),
        parts.representation.encoder.feature_dim,
    )


class _OnlyShapes(TorchFunctionMode):
    """Skips functions whose values do not matter and whose meta versions take most of a second to import."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.linalg.qr:
            (matrix,) = args
            return matrix, matrix.new_empty(matrix.shape[-1], matrix.shape[-1])
        if func in (torch.log, torch.Tensor.log):
            return args[0]
        return func(*args, **(kwargs or {}))


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _check(what: str, needs: Mapping[str, int], available: int) -> None:
    total = sum(needs.values())
    if total <= available:
        return
    largest = max(needs, key=lambda name: needs[name])
    shares = ", ".join(f"{name} {amount / 1e9:,.1f} GB" for name, amount in needs.items())
    raise ResourceError(
        f"the run requires at least {total / 1e9:,.1f} GB of {what} ({shares}), and {available / 1e9:,.1f} GB are "
        f"available: lower {_HINTS[largest]}"
    )
