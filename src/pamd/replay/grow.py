"""A function that enlarges a replay on disk.

Frame `c` is row `c % slots` of its files. If no frame was overwritten, this is row `c`, so larger files have the same
rows. If the process is killed, the replay is still valid: it is the old one until the last step and then the new one.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from pamd import atomic_io
from pamd.errors import ReplayError
from pamd.replay.files import Manifest, check, convert_os_errors
from pamd.replay.layout import Layout
from pamd.replay.resources import check_resources, layout_forecast
from pamd.schema import Count, check_values

__all__ = ["grow"]


def grow(directory: Path, capacity: int) -> None:
    """Enlarge the replay in `directory` to `capacity` frames. A replay that is large enough is not changed."""
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
