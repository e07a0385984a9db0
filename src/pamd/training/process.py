"""The training process: CPU threads, the memory allocator, stop signals, and the time that its parts take."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from pamd.envs import EnvConfig

_CGROUP = Path("/sys/fs/cgroup")
_SMALL = 48
"""The maximum side of a small image, in pixels."""

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 * 2**20
"""The largest value that glibc accepts on 64-bit systems."""


def available_threads() -> int:
    """Return the minimum of the CPU affinity, the cgroup quota, OMP_NUM_THREADS and torch's setting."""
    limits = [cores(), torch.get_num_threads(), *_quotas()]
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if wanted.isdigit() and int(wanted) > 0:
        limits.append(int(wanted))
    return max(1, min(limits))


def default_threads(env: EnvConfig) -> int:
    """Return the default number of threads of a run: one for small observations, otherwise all available threads.

    For small observations, a second thread saves a tenth of the time on an idle machine. On a busy machine, the run
    takes several times as long.
    """
    small = env.task.startswith("state:") or env.size <= _SMALL
    return 1 if small else available_threads()


@contextmanager
def torch_threads(count: int | None) -> Iterator[int]:
    """Run torch with `count` threads, or with all available threads. The previous setting is restored on exit."""
    before = torch.get_num_threads()
    chosen = count or available_threads()
    torch.set_num_threads(chosen)
    try:
        yield chosen
    finally:
        torch.set_num_threads(before)


def oversubscribed(threads: int) -> str | None:
    """Return a warning if this run uses several threads and the machine is overloaded; otherwise None."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return None
    count = os.cpu_count() or 1
    if threads == 1 or load < 1.5 * count:
        return None
    return (
        f"threads: the load is {load:.1f} on {count} cores, and this run uses {threads} threads, which wait"
        " for the CPU. Use --threads 1"
    )


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quotas() -> list[int]:
    """Return the CPU quotas of the control groups, in cores; empty if there is no limit."""
    quotas = []
    for file, parse in (("cpu.max", _version_2), ("cpu/cpu.cfs_quota_us", _version_1)):
        try:
            quota = parse(_CGROUP / file)
        except (OSError, ValueError, IndexError):
            continue
        if quota is not None:
            quotas.append(max(1, math.ceil(quota)))
    return quotas


def _version_2(path: Path) -> float | None:
    quota, period = path.read_text().split()[:2]
    return None if quota == "max" else int(quota) / int(period)


def _version_1(path: Path) -> float | None:
    quota, period = int(path.read_text()), int(path.with_name("cpu.cfs_period_us").read_text())
    return None if quota <= 0 else quota / period


def keep_freed_memory() -> bool:
    """Tell the C library to keep freed memory in this process. Returns False if it cannot (not glibc).

    This avoids page faults for the large short-lived tensors of every update.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD) and mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))


class Stop:
    """A flag that SIGINT, SIGTERM or SIGHUP sets. Loops read it. A second Ctrl-C stops immediately."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        # Only a person means "at once". SIGHUP comes from the shell and again when the shell ends, SIGTERM from a
        # machine that shuts down and again from a sweep that does.
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True

    def install(self) -> dict[int, Any]:
        """Handle the signals, and return the previous handlers. Outside the main thread, nothing changes."""
        if threading.current_thread() is not threading.main_thread():
            return {}
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # `nohup` asks to ignore it.
            numbers.append(signal.SIGHUP)
        return {number: signal.signal(number, self) for number in numbers}


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Return a `Stop` that handles SIGINT, SIGTERM and SIGHUP. The previous handlers are restored on exit."""
    stop = Stop()
    before = stop.install()
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Stopwatch:
    """Seconds spent in named sections since the last reading."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._began, self._cpu = time.perf_counter(), time.process_time()

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start

    def read(self) -> tuple[float, dict[str, float]]:
        """Return the time since the last reading and the share of each section, and reset the watch.

        The share `cpu` is the processor time of the process: 1 for each fully used core.
        """
        now, cpu = time.perf_counter(), time.process_time()
        whole, seconds = now - self._began, {**self._seconds, "cpu": cpu - self._cpu}
        self._began, self._cpu, self._seconds = now, cpu, {}
        return whole, {name: round(spent / whole, 4) for name, spent in seconds.items()} if whole > 0 else {}
