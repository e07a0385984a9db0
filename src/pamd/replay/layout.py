"""What a replay holds and how large it is: the numbers that memory, files and forecast agree on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pamd.config import check_choice, check_positive
from pamd.errors import ConfigError

__all__ = ["MINIMUM_MARGIN", "STORAGES", "Column", "Layout", "ReplayConfig"]

STORAGES = ("memory", "mmap")

# Two checkpoints of at least one loop iteration each, and an iteration may write two slots: the last frame of an
# episode and the first of the next.
MINIMUM_MARGIN = 4


@dataclass(frozen=True)
class ReplayConfig:
    capacity: int = 1_000_000
    """How many of the newest frames can be sampled."""
    storage: str = "memory"
    """`memory`, or `mmap`: the frames live in a file, and memory is what the system spares to cache it."""

    def __post_init__(self) -> None:
        _check_whole(capacity=self.capacity)
        check_positive("replay", capacity=self.capacity)
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
        _check_whole(margin=self.margin, action_dim=self.action_dim, frame_stack=self.frame_stack)
        if not isinstance(self.frame_shape, tuple) or len(self.frame_shape) != 3:
            raise ConfigError(f"replay: frame_shape must be a tuple (C, H, W), got {self.frame_shape!r}")
        channels, height, width = self.frame_shape
        _check_whole(channels=channels, height=height, width=width)
        check_positive("replay: frame_shape", channels=channels, height=height, width=width)
        if self.action_dim < 1 or self.frame_stack < 1 or self.margin < 0:
            raise ConfigError(
                "replay: action_dim and frame_stack must be at least 1 and margin at least 0, "
                f"got {self.action_dim}, {self.frame_stack} and {self.margin}"
            )
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
    def columns_in_memory(self) -> Mapping[str, Column]:
        """All of them, or all but the frames: 33 bytes a slot are not worth a page fault."""
        return {name: column for name, column in self.columns.items() if name != "frames" or self.storage == "memory"}


def _check_whole(**values: int) -> None:
    for name, value in values.items():
        if type(value) is not int:
            raise ConfigError(f"replay: {name} must be a whole number (int), got {value!r}")
