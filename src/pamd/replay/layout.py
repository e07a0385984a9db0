"""The layout of a replay: shapes and sizes shared by memory, files and forecast."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from pamd.errors import ConfigError
from pamd.schema import Count, Index, record

FrameDtype = Literal["uint8", "float32"]
StorageName = Literal["memory", "mmap"]
STORAGES: tuple[StorageName, ...] = get_args(StorageName)
StorageChoice = Literal["auto", "memory", "mmap"]
"""`auto` becomes one of the others when a replay is created. Batches are the same in all of them."""

DTYPES: dict[FrameDtype, tuple[str, str]] = {"uint8": ("frames.u8", "u1"), "float32": ("frames.f32", "<f4")}
"""The file name and the numpy type of each frame data type."""

CHECK = "<u4"
"""The numpy type of a frame's checksum, which is kept in memory only."""

# There is at least one loop iteration between checkpoints, and an iteration may write two slots: the last frame of an
# episode and the first frame of the next.
MINIMUM_MARGIN = 4


@record(what="replay")
class ReplayConfig:
    """The size and the place of a replay."""

    capacity: Count = 1_000_000
    """The number of frames in the replay. The oldest ones are overwritten."""
    storage: StorageChoice = "auto"
    """Where frames are stored: in memory, or in a memory-mapped file. `auto`: in memory if they fit."""


class Column(NamedTuple):
    """One file of values, with one row per slot."""

    file: str
    dtype: str
    row_shape: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        return int(self.dtype[-1]) * math.prod(self.row_shape)


@record(what="replay")
class Layout:
    """The layout of one replay. Arrays in memory have `capacity` slots; files have `slots` = `capacity` + `margin`."""

    capacity: Count
    margin: Index
    frame_shape: tuple[Count, ...]
    """[C, H, W] for pixels, [n] for state vectors. Frames are stacked along the first axis."""
    action_dim: Count
    frame_stack: Count
    storage: StorageName
    dtype: FrameDtype = "uint8"
    """`uint8` or `float32`: the data type of the frames."""

    def __post_init__(self) -> None:
        if not self.frame_shape:
            raise ConfigError("replay: frame_shape must be a tuple such as (C, H, W) or (n,), got ()")
        if self.capacity < self.frame_stack + 1:
            raise ConfigError(
                f"replay: capacity {self.capacity} cannot hold one transition of frame_stack {self.frame_stack}; "
                f"it must be at least {self.frame_stack + 1}"
            )

    @property
    def slots(self) -> int:
        return self.capacity + self.margin

    @property
    def columns(self) -> Mapping[str, Column]:
        """The columns: frame, the step taken from it, and its age in the episode."""
        return {
            "frames": Column(*DTYPES[self.dtype], self.frame_shape),
            "actions": Column("actions.f32", "<f4", (self.action_dim,)),
            "rewards": Column("rewards.f32", "<f4", ()),
            "terminated": Column("terminated.u8", "u1", ()),
            "age": Column("age.i32", "<i4", ()),
        }

    @property
    def step_columns(self) -> Mapping[str, Column]:
        """All columns except the frames. They are always in memory: a slot takes only 9 + 4 * `action_dim` bytes."""
        return {name: column for name, column in self.columns.items() if name != "frames"}

    @property
    def memory(self) -> int:
        """The size in memory, in bytes."""
        frame = 0 if self.storage == "mmap" else self.columns["frames"].row_bytes
        steps = sum(column.row_bytes for column in self.step_columns.values())
        return self.capacity * (frame + steps + int(CHECK[-1]))
