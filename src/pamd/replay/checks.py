"""Checksums of a replay, so that a byte that changed on disk is found and never sampled.

A frame has a CRC-32 from the moment it is written. A block of `BLOCK` frames has one checksum per column; that of the
frames covers their own checksums. Blocks are counted by frames, so a block that is full never changes, and a kill after
a checkpoint only adds frames that its checksums do not cover. The checksums find accidents. They are no signature:
whoever can rewrite the replay can rewrite them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from pamd.replay.files import unbroken

__all__ = ["BLOCK", "BlockChecks", "checksum", "damaged_blocks"]

BLOCK = 4096
"""Frames per block: a replay of a million frames has a checksum list of 10 kilobytes."""
DIGITS = 8
"""Hexadecimal digits of a CRC-32."""

# The step from the newest frame is not known yet when a checkpoint is written.
_STEP_COLUMNS = ("actions", "rewards", "terminated")


def checksum(row: NDArray[Any]) -> int:
    """CRC-32 of a contiguous array."""
    return zlib.crc32(row.data)


class BlockChecks:
    """The checksums of all blocks, computed anew only for blocks that have changed."""

    def __init__(self, rings: Mapping[str, NDArray[Any]]) -> None:
        """`rings`: by column, [capacity, ...]; the ring of the frames holds their checksums."""
        self._rings = rings
        self._known: dict[tuple[str, int, int], str] = {}

    def of(self, first: int, stop: int) -> dict[str, str]:
        """By column, the checksums of the blocks of frames `first` to `stop`, as hexadecimal digits."""
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
    """The column, first frame and end of every block whose checksum is not the expected one."""
    for name, values in found.items():
        given = expected.get(name, "")
        for index, (begin, end) in enumerate(_blocks(name, first, stop)):
            at = slice(DIGITS * index, DIGITS * (index + 1))
            if values[at] != given[at]:
                yield name, begin, end


def _blocks(name: str, first: int, stop: int) -> Iterator[tuple[int, int]]:
    return unbroken(first, stop - (name in _STEP_COLUMNS), BLOCK)


def _block_checksum(ring: NDArray[Any], begin: int, end: int) -> str:
    value = 0
    for first, stop in unbroken(begin, end, len(ring)):
        at = first % len(ring)
        value = zlib.crc32(ring[at : at + stop - first].data, value)
    return f"{value:0{DIGITS}x}"
