"""What a replay holds and how large it is: the numbers that memory, files and forecast agree on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pamd.config import check_choice, check_whole
from pamd.errors import ConfigError

__all__ = ["ASSUMED_RATIO", "CHUNK", "MINIMUM_MARGIN", "STORAGES", "Column", "Layout", "ReplayConfig"]

STORAGES = ("memory", "mmap", "compressed")

# Frames compressed together. More make them smaller, and a sample unpack more that it does not need.
CHUNK = 4

# What `compressed` takes for granted, below the 4 that plain backgrounds give; up to SMALL bytes it assumes nothing.
ASSUMED_RATIO = 3
SMALL = 2**28

# Two checkpoints of at least one loop iteration each, and an iteration may write two slots: the last frame of an
# episode and the first of the next.
MINIMUM_MARGIN = 4


@dataclass(frozen=True)
class ReplayConfig:
    capacity: int = 1_000_000
    """How many of the newest frames can be sampled."""
    storage: str = "memory"
    """`memory`; `mmap`: the frames live in a file, and memory is what the system spares to cache it; or `compressed`:
    in memory, four consecutive frames at a time made small by zstd. Plain backgrounds become about four times smaller
    and a batch takes twenty times longer to sample; video and noise hardly shrink. A third of the size is set
    aside (all of it up to 256 MB), and frames that do not fit there end the run with a ResourceError, video within its
    first 1024 frames."""

    def __post_init__(self) -> None:
        check_whole("replay", "capacity", self.capacity, 1)
        check_choice("replay", "storage", self.storage, STORAGES)


class Column(NamedTuple):
    """One kind of value, one row per slot."""

    file: str
    dtype: str
    row_shape: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        return int(self.dtype[-1]) * math.prod(self.row_shape)


@dataclass(frozen=True)
class Layout:
    """The shape of one replay. Memory rings have `capacity` slots, the files `slots` = `capacity` + `margin`."""

    capacity: int
    margin: int
    frame_shape: tuple[int, int, int]
    """[C, H, W]"""
    action_dim: int
    frame_stack: int
    storage: str

    def __post_init__(self) -> None:
        ReplayConfig(self.capacity, self.storage)
        check_whole("replay", "margin", self.margin, 0)
        check_whole("replay", "action_dim", self.action_dim, 1)
        check_whole("replay", "frame_stack", self.frame_stack, 1)
        if not isinstance(self.frame_shape, tuple) or len(self.frame_shape) != 3:
            raise ConfigError(f"replay: frame_shape must be a tuple (C, H, W), got {self.frame_shape!r}")
        for name, length in zip(("channels", "height", "width"), self.frame_shape, strict=True):
            check_whole("replay: frame_shape", name, length, 1)
        if self.capacity < self.frame_stack + 1:
            raise ConfigError(
                f"replay: capacity {self.capacity} cannot hold one transition of frame_stack {self.frame_stack}; "
                f"at least {self.frame_stack + 1} are needed"
            )

    @property
    def slots(self) -> int:
        return self.capacity + self.margin

    @property
    def columns(self) -> Mapping[str, Column]:
        """What a slot holds: a frame, the step that was taken from it, and its age in its episode."""
        return {
            "frames": Column("frames.u8", "u1", self.frame_shape),
            "actions": Column("actions.f32", "<f4", (self.action_dim,)),
            "rewards": Column("rewards.f32", "<f4", ()),
            "terminated": Column("terminated.u8", "u1", ()),
            "age": Column("age.i32", "<i4", ()),
        }

    @property
    def step_columns(self) -> Mapping[str, Column]:
        """All but the frames. In memory with every storage: 33 bytes a slot are not worth a page fault."""
        return {name: column for name, column in self.columns.items() if name != "frames"}

    @property
    def memory(self) -> int:
        """Bytes in memory."""
        frame = self.columns["frames"].row_bytes
        # The chunks, begin and end of each, and the one that is not complete.
        compressed = self.chunk_memory + 16 * self.chunks + CHUNK * frame
        frames = {"memory": self.capacity * frame, "mmap": 0, "compressed": compressed}[self.storage]
        return frames + self.capacity * sum(column.row_bytes for column in self.step_columns.values())

    @property
    def chunks(self) -> int:
        """How many cover the window, wherever in a chunk it begins and ends, and one more that is on its way out."""
        return self.capacity // CHUNK + 2

    @property
    def chunk_memory(self) -> int:
        """Bytes for the chunks: what incompressible ones take, or where that is much, what is assumed."""
        worst = self._incompressible
        return max(min(worst, SMALL), -(-worst // ASSUMED_RATIO))

    @property
    def assumed_ratio(self) -> float:
        """How many times smaller the frames must become to fit; 1 where nothing is assumed."""
        return self._incompressible / self.chunk_memory if self.storage == "compressed" else 1.0

    @property
    def _incompressible(self) -> int:
        # One chunk more: none lies across the end of the memory, so up to one is lost there.
        return (self.chunks + 1) * CHUNK * self.columns["frames"].row_bytes
