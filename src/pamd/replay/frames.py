"""Frame storage in memory or in a file. Compressed storage is in `compressed.py`."""

from __future__ import annotations

import abc
import contextlib
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd import atomic_io
from pamd.replay import files
from pamd.replay.layout import Layout
from pamd.replay.ring import Counters

__all__ = ["Frame", "Frames", "MappedFrames", "MemoryFrames"]

Frame = NDArray[Any]
"""An array of uint8 or float32, as defined by the layout."""


class Frames(abc.ABC):
    """The newest `capacity` frames, indexed by their counters."""

    @abc.abstractmethod
    def write(self, counter: int, frame: Frame) -> None:
        """Store `frame`, of the layout's shape, as frame `counter`."""

    @abc.abstractmethod
    def gather(self, counters: Counters, out: Frame) -> None:
        """Copy the frames `counters` [..., K] to `out` [..., K, *frame_shape].

        The K frames of a row are close to each other and may repeat.
        """

    @abc.abstractmethod
    def save(self, directory: Path, first: int, stop: int) -> None:
        """Write frames `first` to `stop` durably to their file.

        The file is raw, so every kind of storage can load it.
        """

    @abc.abstractmethod
    def load(self, directory: Path, first: int, stop: int) -> None:
        """Read frames `first` to `stop` from their file."""


class MemoryFrames(Frames):
    """Frames in a ring in memory."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._rows = np.zeros((layout.capacity, *layout.frame_shape), layout.columns["frames"].dtype)

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
    """Frames in a memory-mapped file.

    All pages of a batch are prefetched. Reading pages that are not in the system's cache one at a time takes several
    times as long (docs/performance.md).
    """

    def __init__(self, directory: Path, layout: Layout, read_only: bool) -> None:
        column = layout.columns["frames"]
        path = directory / column.file
        with files.convert_os_errors(directory):
            # A view as a plain array: np.memmap itself adds overhead to every operation.
            shape = (layout.slots, *column.row_shape)
            with atomic_io.open_file(path, "rb") as file:
                self._rows = np.asarray(np.memmap(file, column.dtype, "r", shape=shape))
            self._handle = os.open(path, (os.O_RDONLY if read_only else os.O_RDWR) | os.O_NOFOLLOW)
        weakref.finalize(self, os.close, self._handle)
        self._directory = directory
        self._row_bytes = column.row_bytes

    def write(self, counter: int, frame: Frame) -> None:
        # Write to the file: on a full disk this raises an error, whereas a write to the map kills the process.
        data = np.ascontiguousarray(frame).data.cast("B")
        offset = counter % len(self._rows) * self._row_bytes
        with files.convert_os_errors(self._directory):
            while data:
                done = os.pwrite(self._handle, data, offset)
                data, offset = data[done:], offset + done

    def gather(self, counters: Counters, out: Frame) -> None:
        if hasattr(os, "posix_fadvise"):  # posix_fadvise is missing on macOS.
            self._prefetch(counters)
        _take(self._rows, counters, out)

    def _prefetch(self, counters: Counters) -> None:
        first, last = counters.min(-1).ravel(), counters.max(-1).ravel()
        start, length = first % len(self._rows), last - first + 1
        # A range that passes the end of the ring continues at its beginning.
        rest = start + length - len(self._rows)
        runs = [*zip(start.tolist(), length.tolist(), strict=True), *((0, n) for n in rest[rest > 0].tolist())]
        with contextlib.suppress(OSError):  # This is a hint that not every file system supports.
            for row, rows in runs:
                os.posix_fadvise(self._handle, row * self._row_bytes, rows * self._row_bytes, os.POSIX_FADV_WILLNEED)

    def save(self, directory: Path, first: int, stop: int) -> None:
        with files.convert_os_errors(self._directory):
            os.fsync(self._handle)

    def load(self, directory: Path, first: int, stop: int) -> None:
        """Do nothing: the map reads the file."""


def _take(rows: Frame, counters: Counters, out: Frame) -> None:
    # mode="raise" would gather into a second buffer first.
    np.take(rows, counters % len(rows), axis=0, out=out, mode="clip")
