"""Forecasts of the memory and disk space of a replay, and checks that they are available before any allocation."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pamd.errors import ResourceError
from pamd.replay.layout import DTYPES, FrameDtype, Layout, ReplayConfig, StorageName

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Forecast:
    """The memory and disk space of a full replay."""

    bytes_memory: int
    bytes_disk: int
    """The size of the files; 0 without a directory."""
    bytes_per_transition: float
    """Bytes of memory, or of disk with `mmap`."""


def forecast(
    config: ReplayConfig, frame_shape: tuple[int, ...], action_dim: int, margin: int, dtype: str = "uint8"
) -> Forecast:
    """Forecast the memory and disk space of a full replay. With storage `auto`, it is in memory."""
    storage: StorageName = "memory" if config.storage == "auto" else config.storage
    # The frame stack needs no storage, because it is built when a batch is sampled.
    return layout_forecast(
        Layout(config.capacity, margin, frame_shape, action_dim, 1, storage, cast(FrameDtype, dtype))
    )


def layout_forecast(layout: Layout) -> Forecast:
    """Forecast the memory and disk space of a full replay with this layout."""
    disk = layout.slots * sum(column.row_bytes for column in layout.columns.values())
    full = disk if layout.storage == "mmap" else layout.memory
    return Forecast(layout.memory, disk, full / layout.capacity)


def check_resources(forecast: Forecast, directory: str | os.PathLike[str] | None) -> None:
    """Raise ResourceError if the available memory, or the disk of `directory`, is too small for the forecast."""
    memory = available_memory()
    if forecast.bytes_memory > memory:
        raise ResourceError(
            f"the replay requires {_gigabytes(forecast.bytes_memory)} of memory "
            f"({forecast.bytes_per_transition:,.0f} bytes per transition), "
            f"and {_gigabytes(memory)} are available: "
            "lower capacity, or use storage 'mmap'"
        )
    if directory is None:
        return
    disk = available_disk(directory) + disk_taken(Path(directory))
    if forecast.bytes_disk > disk:
        raise ResourceError(
            f"the replay requires {_gigabytes(forecast.bytes_disk)} of disk in {directory} "
            f"({forecast.bytes_per_transition:,.0f} bytes per transition), and {_gigabytes(disk)} are available: "
            "lower capacity, or choose another directory"
        )


def available_memory() -> int:
    """Return the bytes that this process can allocate: the minimum over the machine and its control groups."""
    return min([_machine_memory(), *_cgroup_memory()])


def available_disk(directory: str | os.PathLike[str]) -> int:
    """Return the free bytes on the disk of `directory`, which need not exist."""
    path = Path(directory).absolute()
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def _machine_memory() -> int:
    for line in _lines(_PROC / "meminfo"):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    # On systems other than Linux, only the total memory is known.
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cgroup_memory() -> list[int]:
    """Return the free memory of each control group of this process. A container may see its own group as the root."""
    left = []
    for line in _lines(_PROC / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, names = _CGROUPS, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = _CGROUPS / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = root / path.lstrip("/")
        left += [_left_in(each, *names) for each in (group, *group.parents) if each.is_relative_to(root)]
    return [amount for amount in left if amount is not None]


def _left_in(group: Path, limit_name: str, usage_name: str, cache_name: str) -> int | None:
    limit, usage = _lines(group / limit_name), _lines(group / usage_name)
    if not limit or not usage or limit[0] == "max":
        return None
    # Cached files count as usage, but the system frees them on demand.
    statistics = dict(line.split(" ", 1) for line in _lines(group / "memory.stat"))
    return max(0, int(limit[0]) - int(usage[0]) + int(statistics.get(cache_name, 0)))


def disk_taken(directory: Path) -> int:
    """Return the bytes on disk that the replay in `directory` uses now. Its files are sparse until they are full."""
    layouts = [Layout(2, 0, (1,), action_dim=1, frame_stack=1, storage="memory", dtype=dtype) for dtype in DTYPES]
    paths = {directory / column.file for layout in layouts for column in layout.columns.values()}
    return sum(path.stat().st_blocks * 512 for path in paths if path.is_file())


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _gigabytes(amount: int) -> str:
    return f"{amount / 1e9:,.2f} GB"
