"""The replay on disk: one raw little-endian file per column, `slots` rows each, and `replay.json`.

Frame `c` is row `c % slots` of every file. `replay.json` is replaced atomically, after the rows that it refers to are
durable, so it never refers to missing rows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from numpy.typing import NDArray

from pamd import atomic_io
from pamd.errors import ConfigError, PamdError, ReplayError, ResourceError
from pamd.replay.layout import DTYPES, Column, Layout
from pamd.replay.resources import check_resources, layout_forecast
from pamd.schema import Count, Index, build, check_values, record, to_json

_C = TypeVar("_C")

MANIFEST = "replay.json"
_VERSION = 2


@record(what="the state of the replay")
class State:
    """The part of the replay that a checkpoint stores; the rest is in the files."""

    written: Index
    """The number of frames written so far, including overwritten ones."""
    transitions: Index
    """The number of transitions that can be sampled."""
    checks: dict[str, str] = field(compare=False)
    """The checksums of the blocks by column. A restore uses the checksums in the checkpoint."""

    def __post_init__(self) -> None:
        if self.transitions > self.written:
            raise ConfigError(
                "the state of the replay must count transitions <= written, "
                f"got transitions {self.transitions} and written {self.written}"
            )

    @staticmethod
    def parse(data: Mapping[str, Any]) -> State:
        return _build(State, data, "the state of the replay")


@record(what=MANIFEST)
class Manifest:
    """The content of `replay.json`."""

    layout: Layout
    syncs: tuple[State, ...] = ()
    """The syncs whose complete window is in the files, oldest first. These are the last two syncs, or the last three
    between a sync and the next frame, while a checkpoint is written."""
    version: int = _VERSION
    growing_to: Count | None = None
    """The target capacity of an unfinished `grow`. Some files may already have that size."""

    def __post_init__(self) -> None:
        written = [state.written for state in self.syncs]
        if len(written) > 3 or written != sorted(set(written)):
            raise ConfigError(f"{MANIFEST}: syncs must be at most three, in increasing order, got {written}")

    @property
    def state(self) -> State:
        """The state at the last sync, or an empty state if there was none."""
        return self.syncs[-1] if self.syncs else State(0, 0, {})

    def synced(self, state: State) -> Manifest:
        """Return the manifest after one more sync. A second sync at the same point changes nothing."""
        return self if state == self.state and self.syncs else self._with((*self.syncs[-2:], state))

    def last_two(self) -> Manifest:
        return self._with(self.syncs[-2:])

    def save(self, directory: Path) -> None:
        with convert_os_errors(directory):
            atomic_io.replace(directory / MANIFEST, (to_json(self) + "\n").encode())

    @staticmethod
    def load(directory: Path) -> Manifest:
        path = directory / MANIFEST
        if not path.is_file():
            raise ReplayError(f"{directory} contains no replay: {MANIFEST} is missing")
        try:
            with convert_os_errors(directory):
                data = json.loads(atomic_io.read(path))
        except (ValueError, RecursionError) as error:
            raise ReplayError(f"{path} is not valid JSON: {error}") from None
        version = data.get("version") if isinstance(data, dict) else None
        if version != _VERSION:
            raise ReplayError(f"{path} has version {version!r}; this package reads version {_VERSION}")
        return _build(Manifest, data, str(path))

    def at(self, state: State, directory: Path) -> Manifest:
        """Return the manifest with the sync of `state` as the last one."""
        if state not in self.syncs:
            held = ", ".join(f"{sync.written} ({sync.transitions})" for sync in self.syncs) or "none"
            raise ReplayError(
                f"the checkpoint belongs to {state.written} written frames ({state.transitions} transitions); "
                f"{directory} holds the syncs {held}"
            )
        return self._with((*self.syncs[: self.syncs.index(state)], state))

    def _with(self, syncs: tuple[State, ...]) -> Manifest:
        return dataclasses.replace(self, syncs=syncs)


def create(directory: Path, layout: Layout) -> None:
    """Create sparse files, which use disk space only as rows are written. An old replay is deleted."""
    with convert_os_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / MANIFEST).unlink(missing_ok=True)
        for name, _ in DTYPES.values():
            (directory / name).unlink(missing_ok=True)
        try:
            for column in layout.columns.values():
                with atomic_io.open_file(directory / column.file, "wb") as file:
                    file.truncate(layout.slots * column.row_bytes)
        except OSError:
            for column in layout.columns.values():
                (directory / column.file).unlink(missing_ok=True)
            raise
        atomic_io.sync_directory(directory)


def check(directory: Path, manifest: Manifest) -> None:
    """Raise ReplayError unless every file exists and has the size of the layout, or the larger size of a `grow`."""
    layout = manifest.layout
    for column in layout.columns.values():
        path = directory / column.file
        if not path.is_file():
            raise ReplayError(f"the replay file {path} is missing")
        size, expected = path.stat().st_size, layout.slots * column.row_bytes
        grown = None if manifest.growing_to is None else (manifest.growing_to + layout.margin) * column.row_bytes
        if size not in (expected, grown):
            raise ReplayError(
                f"the replay file {path} has {size} bytes; {layout.slots} rows of {column.row_bytes} make {expected}"
            )


def grow(directory: Path, capacity: int) -> None:
    """Enlarge the replay in `directory` to `capacity` frames. A replay that is large enough is not changed.

    Frame `c` is row `c % slots` of its files. If no frame was overwritten, this is row `c`, so larger files have the
    same rows. If the process is killed, the replay is still valid: it is the old one until the last step and then the
    new one.
    """
    manifest = Manifest.load(directory)
    check_values("replay", Count, capacity=capacity)
    check(directory, manifest)
    if capacity <= manifest.layout.capacity and manifest.growing_to is None:
        return
    grown = _grown(manifest, max(capacity, manifest.layout.capacity), directory)
    check_resources(layout_forecast(grown), directory)
    # Undo an interrupted attempt with another capacity first, so that the manifest names all possible file sizes.
    _resize(directory, manifest.layout)
    dataclasses.replace(manifest, growing_to=grown.capacity).save(directory)
    _resize(directory, grown)
    dataclasses.replace(manifest, layout=grown, growing_to=None).save(directory)


def _grown(manifest: Manifest, capacity: int, directory: Path) -> Layout:
    layout, written = manifest.layout, manifest.state.written
    grown = dataclasses.replace(layout, capacity=capacity)
    if capacity > layout.capacity and written > layout.capacity:
        raise ReplayError(
            f"the replay in {directory} cannot grow: {written} frames were written to a capacity of {layout.capacity}, "
            "so the oldest ones are overwritten"
        )
    return grown


def _resize(directory: Path, layout: Layout) -> None:
    with convert_os_errors(directory):
        for column in layout.columns.values():
            with atomic_io.open_file(directory / column.file, "r+b") as file:
                file.truncate(layout.slots * column.row_bytes)
                os.fsync(file.fileno())


class Piece(NamedTuple):
    """Frames `first` to `stop` of a column; frame `c` is row `c % len(ring)` of `ring` [rows, ...]."""

    ring: NDArray[Any]
    first: int
    stop: int


def write(directory: Path, column: Column, pieces: Iterable[Piece], slots: int) -> None:
    """Write the pieces durably to the column's file."""
    with convert_os_errors(directory), atomic_io.open_file(directory / column.file, "r+b") as file:
        for at, rows in _locate(pieces, slots):
            file.seek(at * column.row_bytes)
            file.write(rows)
        file.flush()
        os.fsync(file.fileno())


def read(directory: Path, column: Column, pieces: Iterable[Piece], slots: int) -> None:
    """Read the pieces from the column's file. Each piece is filled before the next one is requested."""
    with convert_os_errors(directory), atomic_io.open_file(directory / column.file, "rb") as file:
        for at, rows in _locate(pieces, slots):
            file.seek(at * column.row_bytes)
            got = file.readinto(rows)  # type: ignore[attr-defined]
            if got != len(rows):
                raise ReplayError(f"{directory / column.file} is too short by {len(rows) - got} bytes")


@contextlib.contextmanager
def convert_os_errors(directory: Path) -> Iterator[None]:
    """Convert OSError to ResourceError or ReplayError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise ResourceError(f"not enough disk space for the replay in {directory}: {error}") from error
        raise ReplayError(f"the replay in {directory} cannot be read or written: {error}") from error


def split_at(first: int, stop: int, *periods: int) -> Iterator[tuple[int, int]]:
    """Split [first, stop) at the multiples of each of the `periods`, where a ring wraps around."""
    while first < stop:
        end = min(stop, *(first - first % period + period for period in periods))
        yield first, end
        first = end


def _locate(pieces: Iterable[Piece], slots: int) -> Iterator[tuple[int, memoryview]]:
    """Yield each contiguous block of rows in memory, with its first slot in the file."""
    for ring, first, stop in pieces:
        for begin, end in split_at(first, stop, len(ring), slots):
            at = begin % len(ring)
            yield begin % slots, ring[at : at + end - begin].data.cast("B")


def _build(cls: type[_C], data: Mapping[str, Any], what: str) -> _C:
    try:
        return build(cls, dict(data), what)
    except PamdError as error:
        raise ReplayError(str(error)) from None
