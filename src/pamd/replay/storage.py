"""The columns of a replay. Steps are in memory; frames are in memory or in a file. Checksums detect damaged data.

Each frame gets a CRC-32 when it is written. Each block of `BLOCK` frames has one checksum per column; the checksum of
the frame column covers the checksums of the frames. A full block never changes, and frames that were written after a
checkpoint are not covered by its checksums. The checksums detect accidental damage. They are not a signature: anyone
who can rewrite the replay can rewrite them.
"""

from __future__ import annotations

import contextlib
import os
import weakref
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd import atomic_io
from pamd.errors import ReplayError
from pamd.replay import files
from pamd.replay.layout import CHECK, Layout
from pamd.replay.ring import Counters

Frame = NDArray[Any]
"""An array of uint8 or float32, as defined by the layout."""

BLOCK = 4096
"""Frames per block. The checksums of a million frames take 10 kilobytes."""
_DIGITS = 8
"""Hexadecimal digits of a CRC-32."""

# The step from the newest frame is not known yet when a checkpoint is written.
_STEP_COLUMNS = ("actions", "rewards", "terminated")

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
        self.frames: _MemoryFrames | _MappedFrames = (
            _MappedFrames(self.place, layout, read_only) if layout.storage == "mmap" else _MemoryFrames(layout)
        )
        self.age: NDArray[np.int32] = self._rings["age"]
        """[capacity]"""
        self.actions: NDArray[np.float32] = self._rings["actions"]
        """[capacity, A]"""
        self.rewards: NDArray[np.float32] = self._rings["rewards"]
        """[capacity]"""
        self.terminated: NDArray[np.uint8] = self._rings["terminated"]
        """[capacity]"""
        self._frame_checks = np.zeros(layout.capacity, CHECK)
        self.checks = _BlockChecks({"frames": self._frame_checks, **self._rings}).compute

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
            for name, begin, end in _damaged_blocks(expected, self.checks(first, stop), first, stop)
        ]
        if damaged:
            more = f" and {len(damaged) - 3} more blocks" if len(damaged) > 3 else ""
            raise ReplayError(
                f"the replay in {self.place} is damaged: {'; '.join(damaged[:3])}{more} have changed since they were"
                " written"
            )


# -- Frames ----------------------------------------------------------------------------------------------------------


class _MemoryFrames:
    """The newest `capacity` frames, indexed by their counters, in a ring in memory."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._rows = np.zeros((layout.capacity, *layout.frame_shape), layout.columns["frames"].dtype)

    def write(self, counter: int, frame: Frame) -> None:
        """Store `frame`, of the layout's shape, as frame `counter`."""
        self._rows[counter % len(self._rows)] = frame

    def gather(self, counters: Counters, out: Frame) -> None:
        """Copy the frames `counters` [..., K] to `out` [..., K, *frame_shape].

        The K frames of a row are close to each other and may repeat.
        """
        _take(self._rows, counters, out)

    def save(self, directory: Path, first: int, stop: int) -> None:
        """Write frames `first` to `stop` durably to their file.

        The file is raw, so every kind of storage can load it.
        """
        piece = files.Piece(self._rows, first, stop)
        files.write(directory, self._layout.columns["frames"], [piece], self._layout.slots)

    def load(self, directory: Path, first: int, stop: int) -> None:
        """Read frames `first` to `stop` from their file."""
        piece = files.Piece(self._rows, first, stop)
        files.read(directory, self._layout.columns["frames"], [piece], self._layout.slots)


class _MappedFrames:
    """The same in a memory-mapped file.

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
            self._handle = atomic_io.open_regular(path, os.O_RDONLY if read_only else os.O_RDWR)
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


# -- Checksums -------------------------------------------------------------------------------------------------------


def checksum(row: NDArray[Any]) -> int:
    """Return the CRC-32 of a contiguous array."""
    return zlib.crc32(row.data)


class _BlockChecks:
    """The checksums of all blocks. They are recomputed only for blocks that have changed."""

    def __init__(self, rings: Mapping[str, NDArray[Any]]) -> None:
        """`rings` has one array [capacity, ...] per column. The array of the frames holds their checksums."""
        self._rings = rings
        self._known: dict[tuple[str, int, int], str] = {}

    def compute(self, first: int, stop: int) -> dict[str, str]:
        """Return the checksums of the blocks of frames `first` to `stop` by column, as hexadecimal digits."""
        found = {
            (name, begin, end): self._known.get((name, begin, end)) or _block_checksum(ring, begin, end)
            for name, ring in self._rings.items()
            for begin, end in _blocks(name, first, stop)
        }
        self._known = found
        checks = dict.fromkeys(self._rings, "")
        for (name, _, _), value in found.items():
            checks[name] += value
        return checks


def _damaged_blocks(
    expected: Mapping[str, str], found: Mapping[str, str], first: int, stop: int
) -> Iterator[tuple[str, int, int]]:
    """Yield the column, first frame and end of each block with an unexpected checksum."""
    for name, values in found.items():
        given = expected.get(name, "")
        for index, (begin, end) in enumerate(_blocks(name, first, stop)):
            at = slice(_DIGITS * index, _DIGITS * (index + 1))
            if values[at] != given[at]:
                yield name, begin, end


def _blocks(name: str, first: int, stop: int) -> Iterator[tuple[int, int]]:
    return files.split_at(first, stop - (name in _STEP_COLUMNS), BLOCK)


def _block_checksum(ring: NDArray[Any], begin: int, end: int) -> str:
    value = 0
    for first, stop in files.split_at(begin, end, len(ring)):
        at = first % len(ring)
        value = zlib.crc32(ring[at : at + stop - first].data, value)
    return f"{value:0{_DIGITS}x}"
