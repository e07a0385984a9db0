"""The layout of a replay: shapes and sizes shared by memory, files and forecast."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from pamd.errors import ConfigError
from pamd.schema import Count, Index, record

__all__ = [
    "ASSUMED_RATIO",
    "CHECK",
    "CHUNK",
    "DTYPES",
    "MINIMUM_MARGIN",
    "STORAGES",
    "Column",
    "FrameDtype",
    "Layout",
    "ReplayConfig",
    "StorageName",
]

FrameDtype = Literal["uint8", "float32"]
StorageName = Literal["memory", "mmap", "compressed"]
STORAGES: tuple[StorageName, ...] = get_args(StorageName)

DTYPES: dict[FrameDtype, tuple[str, str]] = {"uint8": ("frames.u8", "u1"), "float32": ("frames.f32", "<f4")}
"""The file name and the numpy type of each frame data type."""

# Frames per compressed chunk. A larger chunk compresses better, but sampling decompresses more unneeded frames.
CHUNK = 4

CHECK = "<u4"
"""The numpy type of a frame's checksum, which is kept in memory only."""

# The assumed compression ratio; plain backgrounds reach 4. Below SMALL bytes, no compression is assumed.
ASSUMED_RATIO = 3
SMALL = 2**28

# There is at least one loop iteration between checkpoints, and an iteration may write two slots: the last frame of an
# episode and the first frame of the next.
MINIMUM_MARGIN = 4


@record(what="replay")
class ReplayConfig:
    """The size and the place of a replay."""

    capacity: Count = 1_000_000
    """The number of frames in the replay. The oldest ones are overwritten."""
    storage: StorageName = "memory"
    """Where frames are stored. `memory`: uncompressed in memory. `mmap`: in a memory-mapped file. `compressed`: in
    memory, compressed with zstd in chunks of four frames. Plain backgrounds become about four times smaller; videos
    and noise hardly compress. Sampling a batch takes twenty times as long. A third of the uncompressed size is
    allocated (all of it up to 256 MB). If the frames do not fit, the run ends with a ResourceError; for
    videos this happens within the first 1024 frames."""


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
        if self.storage == "compressed" and self.dtype != "uint8":
            raise ConfigError(
                f"replay: storage 'compressed' cannot be combined with dtype {self.dtype!r}; use 'memory' or 'mmap'"
            )
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
        frame = self.columns["frames"].row_bytes
        # The chunks, their begin and end offsets, and the incomplete chunk.
        compressed = self.chunk_memory + 16 * self.chunks + CHUNK * frame
        frames = {"memory": self.capacity * frame, "mmap": 0, "compressed": compressed}[self.storage]
        steps = sum(column.row_bytes for column in self.step_columns.values())
        return frames + self.capacity * (steps + int(CHECK[-1]))

    @property
    def chunks(self) -> int:
        """The maximum number of chunks that overlap the window, plus one that is being replaced."""
        return self.capacity // CHUNK + 2

    @property
    def chunk_memory(self) -> int:
        """The bytes for the chunks: the uncompressed size if it is small, otherwise the assumed compressed size."""
        worst = self._incompressible
        return max(min(worst, SMALL), -(-worst // ASSUMED_RATIO))

    @property
    def assumed_ratio(self) -> float:
        """The compression ratio that the frames must reach to fit; 1 if no compression is assumed."""
        return self._incompressible / self.chunk_memory if self.storage == "compressed" else 1.0

    @property
    def _incompressible(self) -> int:
        # One more chunk, because no chunk wraps around the end of the memory, so up to one chunk is unused there.
        return (self.chunks + 1) * CHUNK * self.columns["frames"].row_bytes
