"""Where the columns live: rings in memory, and for `mmap` the frames in their file."""

from __future__ import annotations

import abc
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.errors import ReplayError
from pamd.replay import files
from pamd.replay.layout import Layout
from pamd.replay.ring import Counters

__all__ = ["Frame", "Frames", "MappedFrames", "MemoryFrames", "Storage"]

Frame = NDArray[np.uint8]


class Frames(abc.ABC):
    """Frame `c` in row `c % len(rows)`."""

    def __init__(self, rows: Frame) -> None:
        """`rows`: [rows, C, H, W]"""
        self.rows = rows

    @abc.abstractmethod
    def write(self, counter: int, frame: Frame) -> None:
        """Put `frame` [C, H, W] where frame `counter` belongs."""

    @abc.abstractmethod
    def sync(self) -> None:
        """Make durable what was written."""

    def gather(self, counters: Counters, out: Frame) -> None:
        """[...] -> `out` [..., C, H, W]"""
        # Not mode="raise": that one gathers into a second buffer first.
        np.take(self.rows, counters % len(self.rows), axis=0, out=out, mode="clip")


class MemoryFrames(Frames):
    """Frames in one of the storage's rings."""

    def write(self, counter: int, frame: Frame) -> None:
        self.rows[counter % len(self.rows)] = frame

    def sync(self) -> None:
        """Nothing to do: the storage saves its rings."""


class MappedFrames(Frames):
    """Frames in a file, read through a map of it."""

    def __init__(self, directory: Path, layout: Layout, read_only: bool) -> None:
        column = layout.columns["frames"]
        path = directory / column.file
        with files.explained(directory):
            # A view as a plain array: numpy's own class for maps costs time in every operation.
            shape = (layout.slots, *column.row_shape)
            super().__init__(np.asarray(np.memmap(path, column.dtype, "r", shape=shape)))
            self._handle = os.open(path, os.O_RDONLY if read_only else os.O_RDWR)
        weakref.finalize(self, os.close, self._handle)
        self._directory = directory
        self._row_bytes = column.row_bytes

    def write(self, counter: int, frame: Frame) -> None:
        # Through the file, not the map: a full disk then raises an error, where a store to the map kills the process.
        data = np.ascontiguousarray(frame).data.cast("B")
        offset = counter % len(self.rows) * self._row_bytes
        with files.explained(self._directory):
            while data:
                done = os.pwrite(self._handle, data, offset)
                data, offset = data[done:], offset + done

    def sync(self) -> None:
        with files.explained(self._directory):
            os.fsync(self._handle)


class Storage:
    """The columns of one replay, and their files where it has a directory."""

    def __init__(self, layout: Layout, directory: Path | None, read_only: bool = False) -> None:
        self.layout = layout
        self._directory = directory
        self._rings: dict[str, NDArray[Any]] = {
            name: np.zeros((layout.capacity, *column.row_shape), column.dtype)
            for name, column in layout.columns_in_memory.items()
        }
        if layout.storage == "mmap":
            self.frames: Frames = MappedFrames(self.place, layout, read_only)
        else:
            self.frames = MemoryFrames(self._rings["frames"])
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
            raise ReplayError("this replay was made without a directory: it lives in memory only and cannot be saved")
        return self._directory

    def write_step(self, counter: int, action: NDArray[np.float32], reward: float, terminated: bool) -> None:
        """What was done in frame `counter`, and what came of it."""
        slot = counter % self.layout.capacity
        self.actions[slot] = action
        self.rewards[slot] = reward
        self.terminated[slot] = terminated

    def save(self, first: int, stop: int) -> None:
        """Make frames `first` to `stop`, all in the window, durable."""
        for name, column in self.layout.columns_in_memory.items():
            files.write(self.place, column, self._rings[name], first, stop, self.layout.slots)
        self.frames.sync()

    def load(self, first: int, stop: int) -> None:
        """Read frames `first` to `stop` back from the files."""
        for name, column in self.layout.columns_in_memory.items():
            files.read(self.place, column, self._rings[name], first, stop, self.layout.slots)
