"""Damage to one file, as caused by a disk, a sync tool or manual editing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

__all__ = ["DAMAGES"]


def _flip(path: Path) -> None:
    """Flip one bit in the middle of the written content. The unwritten rest of a replay file contains only NULs."""
    data = bytearray(path.read_bytes())
    held = len(bytes(data).rstrip(b"\0")) or min(len(data), 60)
    data[held // 2] ^= 1
    path.write_bytes(data)


def _halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _lose_last_byte(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def _pad(path: Path) -> None:
    with open(path, "ab") as file:
        file.write(bytes(4096))


def _zero(path: Path) -> None:
    """Overwrite the file with NULs, as after a power failure when only the length was written."""
    path.write_bytes(bytes(path.stat().st_size))


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _repeat(path: Path) -> None:
    path.write_bytes(path.read_bytes() * 2)


def _random(path: Path) -> None:
    """Overwrite the file with fixed pseudorandom bytes."""
    size = path.stat().st_size
    path.write_bytes((bytes(range(255, 0, -1)) * (size // 255 + 1))[:size])


def _link(path: Path) -> None:
    """Replace the file by a symbolic link to the same content outside the run directory."""
    elsewhere = path.parents[3] / f"elsewhere-{path.name}"
    shutil.move(path, elsewhere)
    path.symlink_to(elsewhere)


def _dangle(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nothing"))


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "one bit flipped": _flip,
    "cut to half": _halve,
    "last byte lost": _lose_last_byte,
    "padded with 4096 NULs": _pad,
    "overwritten with NULs": _zero,
    "overwritten with other bytes": _random,
    "emptied": _empty,
    "written twice": _repeat,
    "deleted": Path.unlink,
    "moved behind a link": _link,
    "a link to nothing": _dangle,
    "a directory instead": _directory,
}
"""Functions that damage a file in place."""
