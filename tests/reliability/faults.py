"""Fault injection: kill a process at the n-th fsync or rename, or simulate a full disk from the n-th write on.

Faults are installed only in child processes of the storm. The package itself has no hooks.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Fault", "install"]

_CALLS = {"fsync": ("fsync",), "rename": ("rename", "replace")}


@dataclass(frozen=True)
class Fault:
    """The kind of fault and the call at which it occurs."""

    at: Literal["fsync", "rename", "write"]
    call: int
    """Counted from 1."""
    after: bool = False
    """Whether to kill right after the call instead of right before it."""


def install(fault: Fault) -> None:
    """Install `fault` in this process. This cannot be undone."""
    if fault.at == "write":
        _fill_disk(_Disk(fault.call))
        return
    counter = _Counter(fault.call)
    for name in _CALLS[fault.at]:
        setattr(os, name, _deadly(getattr(os, name), counter, fault.after))


class _Counter:
    def __init__(self, call: int) -> None:
        self._left = call

    def reached(self) -> bool:
        """Count one call and return whether it is the one that fails."""
        self._left -= 1
        return self._left == 0


def _deadly(plain: Callable[..., Any], counter: _Counter, after: bool) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        reached = counter.reached()
        if reached and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = plain(*args, **kwargs)
        if reached:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return call


class _Disk:
    """A full disk. It accepts half of the n-th write and nothing after that."""

    def __init__(self, call: int) -> None:
        self._counter = _Counter(call)
        self._full = False

    def write(self, plain: Callable[[Any], int], data: Any) -> int:
        if self._full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if not self._counter.reached():
            return plain(data)
        self._full = True
        half = memoryview(data).cast("B")
        half = half[: len(half) // 2]
        # Write as much as fits, like the operating system. Only the next call fails.
        return plain(half) if half else self.write(plain, data)


def _fill_disk(disk: _Disk) -> None:
    """Route all writes of this process through `disk`."""
    plain_open, plain_pwrite = builtins.open, os.pwrite

    class Raw(io.FileIO):
        def write(self, data: Any) -> int:
            return disk.write(super().write, data)

    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        # Text files are not affected, because the package writes only bytes.
        if "b" not in mode or not set(mode) & set("wax+"):
            return plain_open(file, mode, *args, **kwargs)
        raw = Raw(file, mode.replace("b", ""), closefd=kwargs.get("closefd", True), opener=kwargs.get("opener"))
        return io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)

    def pwrite(handle: int, data: Any, offset: int) -> int:
        return disk.write(lambda part: plain_pwrite(handle, part, offset), data)

    builtins.open = io.open = opened
    os.pwrite = pwrite
