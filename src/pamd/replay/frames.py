"""Where the frames live: in memory or in their file. `compressed.py` has the third kind."""

from __future__ import annotations

import abc
import contextlib
import os
import weakref
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pamd.replay import files
from pamd.replay.layout import Layout
from pamd.replay.ring import Counters

__all__ = ["Frame", "Frames", "MappedFrames", "MemoryFrames"]

Frame = NDArray[np.uint8]


class Frames(abc.ABC):
    """The newest `capacity` frames, by their counters."""

    @abc.abstractmethod
    def write(self, counter: int, frame: Frame) -> None:
        """Put `frame` [C, H, W] where frame `counter` belongs."""

    @abc.abstractmethod
    def gather(self, counters: Counters, out: Frame) -> None:
        """[..., K] -> `out` [..., K, C, H, W]; the K of a transition are neighbours, some perhaps the same."""

    @abc.abstractmethod
    def save(self, directory: Path, first: int, stop: int) -> None:
        """Make frames `first` to `stop` durable in their file: raw, so that every kind can load what another wrote."""

    @abc.abstractmethod
    def load(self, directory: Path, first: int, stop: int) -> None:
        """Read frames `first` to `stop` back."""


class MemoryFrames(Frames):
    """Frames in a ring in memory."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._rows = np.zeros((layout.capacity, *layout.frame_shape), np.uint8)

    def write(self, counter: int, frame: Frame) -> None:
        self._rows[counter % len(self._rows)] = frame

    def gather(self, counters: Counters, out: Frame) -> None:
        _take(self._rows, counters, out)

    def save(self, directory: Path, first: int, stop: int) -> None:
        piece = files.Piece(self._rows, first, stop)
        files.write(directory, self._layout.columns["frames"], [piece], self._layout.slots)

    def load(self, directory: Path, first: int, stop: int) -> None:
        piece = files.Piece(self._rows, first, stop)
        files.read(directory, self._layout.columns["frames"], [piece], self._layout.slots)


class MappedFrames(Frames):
    """Frames in a file, read through a map of it.

    What the system does not hold in its cache is asked for before it is read, all of a batch at once. Without that each
    page is waited for when it is touched, one after the other: several times as long (docs/performance.md).
    """

    def __init__(self, directory: Path, layout: Layout, read_only: bool) -> None:
        column = layout.columns["frames"]
        path = directory / column.file
        with files.explained(directory):
            # A view as a plain array: numpy's own class for maps costs time in every operation.
            shape = (layout.slots, *column.row_shape)
            self._rows = np.asarray(np.memmap(path, column.dtype, "r", shape=shape))
            self._handle = os.open(path, os.O_RDONLY if read_only else os.O_RDWR)
        weakref.finalize(self, os.close, self._handle)
        self._directory = directory
        self._row_bytes = column.row_bytes

    def write(self, counter: int, frame: Frame) -> None:
        # Through the file, not the map: a full disk then raises an error, where a store to the map kills the process.
        data = np.ascontiguousarray(frame).data.cast("B")
        offset = counter % len(self._rows) * self._row_bytes
        with files.explained(self._directory):
            while data:
                done = os.pwrite(self._handle, data, offset)
                data, offset = data[done:], offset + done

    def gather(self, counters: Counters, out: Frame) -> None:
        if hasattr(os, "posix_fadvise"):  # not on a Mac
            self._ask_for(counters)
        _take(self._rows, counters, out)

    def _ask_for(self, counters: Counters) -> None:
        first, last = counters.min(-1).ravel(), counters.max(-1).ravel()
        start, length = first % len(self._rows), last - first + 1
        # A run that goes past the end of the ring has its rest at the beginning.
        rest = start + length - len(self._rows)
        runs = [*zip(start.tolist(), length.tolist(), strict=True), *((0, n) for n in rest[rest > 0].tolist())]
        with contextlib.suppress(OSError):  # a hint, which not every file system takes
            for row, rows in runs:
                os.posix_fadvise(self._handle, row * self._row_bytes, rows * self._row_bytes, os.POSIX_FADV_WILLNEED)

    def save(self, directory: Path, first: int, stop: int) -> None:
        with files.explained(self._directory):
            os.fsync(self._handle)

    def load(self, directory: Path, first: int, stop: int) -> None:
        """Nothing to do: they are read where they are."""


def _take(rows: Frame, counters: Counters, out: Frame) -> None:
    # Not mode="raise": that one gathers into a second buffer first.
    np.take(rows, counters % len(rows), axis=0, out=out, mode="clip")
