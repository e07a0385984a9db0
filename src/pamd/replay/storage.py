"""The columns of a replay. Steps are in memory; frames are in a `Frames` object."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.errors import ReplayError
from pamd.replay import files
from pamd.replay.checks import BlockChecks, checksum, damaged_blocks
from pamd.replay.compressed import CompressedFrames
from pamd.replay.frames import Frame, Frames, MappedFrames, MemoryFrames
from pamd.replay.layout import CHECK, Layout

__all__ = ["Storage"]

_READ_BYTES = 2**20


class Storage:
    """The columns of one replay, and their files if the replay has a directory."""

    def __init__(self, layout: Layout, directory: Path | None, read_only: bool = False) -> None:
        self.layout = layout
        self._directory = directory
        self._rings: dict[str, NDArray[Any]] = {
            name: np.zeros((layout.capacity, *column.row_shape), column.dtype)
            for name, column in layout.step_columns.items()
        }
        self.frames = self._frames(read_only)
        self.age: NDArray[np.int32] = self._rings["age"]
        """[capacity]"""
        self.actions: NDArray[np.float32] = self._rings["actions"]
        """[capacity, A]"""
        self.rewards: NDArray[np.float32] = self._rings["rewards"]
        """[capacity]"""
        self.terminated: NDArray[np.uint8] = self._rings["terminated"]
        """[capacity]"""
        self._frame_checks = np.zeros(layout.capacity, CHECK)
        self._checks = BlockChecks({"frames": self._frame_checks, **self._rings})

    @property
    def place(self) -> Path:
        if self._directory is None:
            raise ReplayError("this replay has no directory: it is in memory only and cannot be saved")
        return self._directory

    def write_frame(self, counter: int, frame: Frame) -> None:
        """Store `frame` as frame `counter`. The checksum is computed from the given bytes, not read back from disk."""
        self.frames.write(counter, frame)
        self._frame_checks[counter % self.layout.capacity] = checksum(np.ascontiguousarray(frame))

    def write_step(self, counter: int, action: NDArray[np.float32], reward: float, terminated: bool) -> None:
        """Store the action that was taken in frame `counter`, its reward and whether it terminated the episode."""
        slot = counter % self.layout.capacity
        self.actions[slot] = action
        self.rewards[slot] = reward
        self.terminated[slot] = terminated

    def save(self, first: int, stop: int) -> None:
        """Write frames `first` to `stop`, all in the window, durably to the files."""
        self.frames.save(self.place, first, stop)
        for name, column in self.layout.step_columns.items():
            files.write(self.place, column, [files.Piece(self._rings[name], first, stop)], self.layout.slots)

    def load(self, first: int, stop: int) -> None:
        """Read frames `first` to `stop` back from the files."""
        self.frames.load(self.place, first, stop)
        for name, column in self.layout.step_columns.items():
            files.read(self.place, column, [files.Piece(self._rings[name], first, stop)], self.layout.slots)

    def checks(self, first: int, stop: int) -> dict[str, str]:
        """Return the checksums of the blocks of frames `first` to `stop` by column."""
        return self._checks.compute(first, stop)

    def verify(self, expected: Mapping[str, str], first: int, stop: int) -> None:
        """Verify frames `first` to `stop`, all in the window.

        Raises ReplayError if a checksum differs from the `expected` one.
        """
        columns = self.layout.columns
        at_once = max(1, _READ_BYTES // columns["frames"].row_bytes)
        rows = np.empty((at_once, *self.layout.frame_shape), columns["frames"].dtype)
        for begin in range(first, stop, at_once):
            counters = np.arange(begin, min(stop, begin + at_once), dtype=np.int64)
            self.frames.gather(counters, out=rows[: len(counters)])
            self._frame_checks[counters % self.layout.capacity] = [checksum(row) for row in rows[: len(counters)]]
        damaged = [
            f"{columns[name].file}, frames {begin} to {end - 1}"
            for name, begin, end in damaged_blocks(expected, self.checks(first, stop), first, stop)
        ]
        if damaged:
            more = f" and {len(damaged) - 3} more blocks" if len(damaged) > 3 else ""
            raise ReplayError(
                f"the replay in {self.place} is damaged: {'; '.join(damaged[:3])}{more} have changed since they were"
                " written"
            )

    def _frames(self, read_only: bool) -> Frames:
        if self.layout.storage == "mmap":
            return MappedFrames(self.place, self.layout, read_only)
        return CompressedFrames(self.layout) if self.layout.storage == "compressed" else MemoryFrames(self.layout)
