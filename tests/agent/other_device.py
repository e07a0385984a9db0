"""Another device without one: tensors on `meta`, and a record of what a GPU would wait for or refuse.

Meta tensors have shapes, types and a device, and no values. Each operation on them is seen here, forward and backward.
"""

from __future__ import annotations

import contextlib
import importlib
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["DEVICE", "DeviceGenerator", "Watch", "pretend", "watched"]

DEVICE = torch.device("meta")
_COPIES = ("aten._to_copy", "aten.copy_")
_READS = ("aten._local_scalar_dense", "aten.equal", "aten.is_nonzero")


class DeviceGenerator(torch.Generator):
    """A generator that claims to be on the device; like CUDA's, it keeps seed and offset on the host."""

    offset = 0

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return DEVICE

    def get_offset(self) -> int:
        return self.offset

    def set_offset(self, offset: int) -> None:
        assert offset % 4 == 0, "CUDA takes multiples of 4"
        self.offset = offset


class Watch(TorchDispatchMode):
    """Collects what goes wrong, each with the line of the package that asked for it."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed: list[str] = []
        """Operations on tensors of both devices, which a GPU refuses (or, for an index, answers with a copy)."""
        self.read: list[str] = []
        """Values or shapes that the host reads from the device: it waits until the device is done."""
        self.uploads: list[str] = []
        """Copies to the device that do not return at once."""
        self.asynchronous = 0
        """Copies to the device that return at once."""
        self.operations = 0

    @property
    def problems(self) -> list[str]:
        return [*self.mixed, *self.read, *self.uploads]

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, str(function).rpartition(".")[0]
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        on_device = [x for x in tensors if x.device == DEVICE]
        self.operations += bool(on_device)
        if name in _COPIES:
            return self._copied(function, name, args, kwargs)
        if on_device and (name in _READS or _depends_on_values(function, args)):
            self.read.append(f"{name} {_place()}")
            return self._value(function, name, args, kwargs)
        # A tensor of no dimension may be on the host: it goes along as a number.
        if on_device and any(x.device != DEVICE and x.ndim for x in tensors):
            self.mixed.append(f"{name} {_place()}")
            args, kwargs = torch.utils._pytree.tree_map(_on_device, (args, kwargs))
        if name == "aten._fused_adam_":
            return None  # meta has no kernel of it
        return function(*args, **kwargs)

    def _copied(self, function: Any, name: str, args: Any, kwargs: Any) -> Any:
        source = args[1] if name == "aten.copy_" else args[0]
        target = args[0].device if name == "aten.copy_" else kwargs.get("device") or source.device
        if source.device == target or (source.ndim == 0 and name == "aten.copy_" and target == DEVICE):
            return function(*args, **kwargs)
        if target != DEVICE:
            self.read.append(f"{name} to the host {_place()}")
            return torch.zeros(source.shape, dtype=kwargs.get("dtype") or source.dtype)
        waits = not (args[2] if name == "aten.copy_" and len(args) > 2 else kwargs.get("non_blocking"))
        self.asynchronous += not waits
        if waits:
            self.uploads.append(f"{name} to the device {_place()}")
        return function(*args, **kwargs)

    def _value(self, function: Any, name: str, args: Any, kwargs: Any) -> Any:
        if name == "aten._local_scalar_dense":
            return 1.0 if args[0].is_floating_point() else 1
        return function(*torch.utils._pytree.tree_map(_on_host, args), **kwargs)


class _Generators(TorchFunctionMode):
    """A GPU refuses to draw with the host's generator."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        generator = kwargs.get("generator")
        drawn = function(*args, **kwargs)
        if isinstance(generator, torch.Generator) and isinstance(drawn, torch.Tensor):
            own = DEVICE if isinstance(generator, DeviceGenerator) else torch.device("cpu")
            if drawn.device != own:
                self.watch.mixed.append(
                    f"{getattr(function, '__name__', function)} with a generator of {own} {_place()}"
                )
        return drawn


@contextlib.contextmanager
def watched() -> Iterator[Watch]:
    """Everything inside is watched."""
    watch = Watch()
    with _Generators(watch), watch:
        yield watch


def pretend(patch: pytest.MonkeyPatch) -> None:
    """Give `meta` what a GPU has: generators, autocast and a fused Adam."""

    def generator(seed: int, device: torch.device) -> torch.Generator:
        made = DeviceGenerator() if device == DEVICE else torch.Generator(device)
        return made.manual_seed(seed)

    def autocast(device_type: str, *args: Any, **kwargs: Any) -> Any:
        return contextlib.nullcontext()

    patch.setattr("pamd.agent.seeded", generator)
    patch.setattr(torch, "autocast", autocast)
    optimizer = importlib.import_module("torch.optim.optimizer")
    patch.setattr(optimizer, "_get_fused_kernels_supported_devices", lambda: ["cpu", "meta"])


def _depends_on_values(function: Any, args: Any) -> bool:
    """Whether shapes that come out depend on values: the host must read them."""
    if str(function).startswith(("aten.index.", "aten.index_put")):
        return any(x is not None and x.dtype in (torch.bool, torch.uint8) for x in args[1])
    tags = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
    return any(tag in function.tags for tag in tags)


def _on_device(x: Any) -> Any:
    return x.to(DEVICE, non_blocking=True) if isinstance(x, torch.Tensor) else x


def _on_host(x: Any) -> Any:
    return torch.ones(x.shape, dtype=x.dtype) if isinstance(x, torch.Tensor) else x


def _place() -> str:
    """The innermost line of the package."""
    frames = [frame for frame in traceback.extract_stack() if "/pamd/" in frame.filename]
    return f"at {frames[-1].filename.rpartition('/pamd/')[2]}:{frames[-1].lineno}" if frames else "in a backward pass"
