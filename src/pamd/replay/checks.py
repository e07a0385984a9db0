"""Checksums of a replay. They detect damaged data on disk before it is sampled.

Each frame gets a CRC-32 when it is written. Each block of `BLOCK` frames has one checksum per column; the checksum of
the frame column covers the checksums of the frames. A full block never changes, and frames that were written after a
checkpoint are not covered by its checksums. The checksums detect accidental damage. They are not a signature: anyone
who can rewrite the replay can rewrite them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from pamd.replay.files import split_at

__all__ = ["BLOCK", "BlockChecks", "checksum", "damaged_blocks"]

BLOCK = 4096
"""Frames per block. The checksums of a million frames take 10 kilobytes."""
DIGITS = 8
"""Hexadecimal digits of a CRC-32."""

# The step from the newest frame is not known yet when a checkpoint is written.
_STEP_COLUMNS = ("actions", "rewards", "terminated")


def checksum(row: NDArray[Any]) -> int:
    """Return the CRC-32 of a contiguous array."""
    return zlib.crc32(row.data)


class BlockChecks:
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


def damaged_blocks(
    expected: Mapping[str, str], found: Mapping[str, str], first: int, stop: int
) -> Iterator[tuple[str, int, int]]:
    """Yield the column, first frame and end of each block with an unexpected checksum."""
    for name, values in found.items():
        given = expected.get(name, "")
        for index, (begin, end) in enumerate(_blocks(name, first, stop)):
            at = slice(DIGITS * index, DIGITS * (index + 1))
            if values[at] != given[at]:
                yield name, begin, end


def _blocks(name: str, first: int, stop: int) -> Iterator[tuple[int, int]]:
    return split_at(first, stop - (name in _STEP_COLUMNS), BLOCK)


def _block_checksum(ring: NDArray[Any], begin: int, end: int) -> str:
    value = 0
    for first, stop in split_at(begin, end, len(ring)):
        at = first % len(ring)
        value = zlib.crc32(ring[at : at + stop - first].data, value)
    return f"{value:0{DIGITS}x}"
