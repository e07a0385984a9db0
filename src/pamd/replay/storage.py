"""The columns of a replay: the steps in rings in memory, and the frames in a `Frames`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.errors import ReplayError
from pamd.replay import files
from pamd.replay.compressed import CompressedFrames
from pamd.replay.frames import Frames, MappedFrames, MemoryFrames
from pamd.replay.layout import Layout

__all__ = ["Storage"]


class Storage:
    """The columns of one replay, and their files if it has a directory."""

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

    @property
    def place(self) -> Path:
        if self._directory is None:
            raise ReplayError("this replay has no directory: it is in memory only and cannot be saved")
        return self._directory

    def write_step(self, counter: int, action: NDArray[np.float32], reward: float, terminated: bool) -> None:
        """Store the action that was taken in frame `counter` and its result."""
        slot = counter % self.layout.capacity
        self.actions[slot] = action
        self.rewards[slot] = reward
        self.terminated[slot] = terminated

    def save(self, first: int, stop: int) -> None:
        """Make frames `first` to `stop`, all in the window, durable."""
        self.frames.save(self.place, first, stop)
        for name, column in self.layout.step_columns.items():
            files.write(self.place, column, [files.Piece(self._rings[name], first, stop)], self.layout.slots)

    def load(self, first: int, stop: int) -> None:
        """Read frames `first` to `stop` back from the files."""
        self.frames.load(self.place, first, stop)
        for name, column in self.layout.step_columns.items():
            files.read(self.place, column, [files.Piece(self._rings[name], first, stop)], self.layout.slots)

    def _frames(self, read_only: bool) -> Frames:
        if self.layout.storage == "mmap":
            return MappedFrames(self.place, self.layout, read_only)
        return CompressedFrames(self.layout) if self.layout.storage == "compressed" else MemoryFrames(self.layout)
