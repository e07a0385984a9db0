"""What a replay will take, and whether the machine has it, before anything is allocated."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from pamd.errors import ResourceError
from pamd.replay.layout import Layout, ReplayConfig

__all__ = ["Forecast", "available_disk", "available_memory", "check_resources", "forecast"]

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Forecast:
    """The cost of a full replay."""

    bytes_memory: int
    bytes_disk: int
    """With a directory; without one it is nothing."""
    bytes_per_transition: float
    """Of the memory, or with `mmap` of the disk."""
    assumed_ratio: float = 1.0
    """How many times smaller `compressed` must make the frames: an assumption. More memory is never taken, and frames
    that do not fit are an error. 1 where nothing is assumed."""


def forecast(config: ReplayConfig, frame_shape: tuple[int, int, int], action_dim: int, margin: int) -> Forecast:
    """What a replay of frames [C, H, W] will take once it is full."""
    # The stack costs nothing: it is made at sampling.
    layout = Layout(config.capacity, margin, frame_shape, action_dim, frame_stack=1, storage=config.storage)
    disk = layout.slots * sum(column.row_bytes for column in layout.columns.values())
    full = disk if config.storage == "mmap" else layout.memory
    return Forecast(layout.memory, disk, full / config.capacity, layout.assumed_ratio)


def check_resources(forecast: Forecast, directory: str | os.PathLike[str] | None) -> None:
    """Raise ResourceError where memory, or the disk of `directory`, is too small for the forecast."""
    memory = available_memory()
    if forecast.bytes_memory > memory:
        assumed = f", if frames become {forecast.assumed_ratio:.1f} times smaller" if forecast.assumed_ratio > 1 else ""
        raise ResourceError(
            f"the replay will need {_gigabytes(forecast.bytes_memory)} of memory "
            f"({forecast.bytes_per_transition:,.0f} bytes per transition{assumed}), "
            f"and {_gigabytes(memory)} are available: "
            "lower capacity, or use storage 'mmap'"
        )
    if directory is None:
        return
    disk = available_disk(directory) + _already_taken(Path(directory))
    if forecast.bytes_disk > disk:
        raise ResourceError(
            f"the replay will need {_gigabytes(forecast.bytes_disk)} of disk in {directory} "
            f"({forecast.bytes_per_transition:,.0f} bytes per transition), and {_gigabytes(disk)} are available: "
            "lower capacity, or choose another directory"
        )


def available_memory() -> int:
    """Bytes that this process can still take: the machine's, or its control group's where that is less."""
    return min([_machine_memory(), *_cgroup_memory()])


def available_disk(directory: str | os.PathLike[str]) -> int:
    """Bytes free where `directory` is, or where it would be made."""
    path = Path(directory).absolute()
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def _machine_memory() -> int:
    for line in _lines(_PROC / "meminfo"):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    # Not Linux: the whole of the memory is the best that is known.
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cgroup_memory() -> list[int]:
    """What each control group above this process leaves; a container may show its own group as the root."""
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
    # Files that were read and are not in use count as usage, but give way.
    statistics = dict(line.split(" ", 1) for line in _lines(group / "memory.stat"))
    return max(0, int(limit[0]) - int(usage[0]) + int(statistics.get(cache_name, 0)))


def _already_taken(directory: Path) -> int:
    """What the files of a replay in `directory` occupy by now: they are sparse until they are full."""
    layout = Layout(2, 0, (1, 1, 1), action_dim=1, frame_stack=1, storage="memory")
    paths = [directory / column.file for column in layout.columns.values()]
    return sum(path.stat().st_blocks * 512 for path in paths if path.is_file())


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _gigabytes(amount: int) -> str:
    return f"{amount / 1e9:,.2f} GB"
