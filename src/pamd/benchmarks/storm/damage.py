"""Damage to one file: what a disk, a sync tool or a hand may do to it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

__all__ = ["DAMAGES"]


def _flip(path: Path) -> None:
    """Change one bit in the middle of what the file holds. A replay holds its first rows; the rest is NULs."""
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
    """As after a power failure on a file system that had only written the length."""
    path.write_bytes(bytes(path.stat().st_size))


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _repeat(path: Path) -> None:
    path.write_bytes(path.read_bytes() * 2)


def _random(path: Path) -> None:
    """Other bytes of the same length, the same ones at every call."""
    size = path.stat().st_size
    path.write_bytes((bytes(range(255, 0, -1)) * (size // 255 + 1))[:size])


def _link(path: Path) -> None:
    """The same content, but behind a symbolic link that leads out of the run directory."""
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
"""Each changes the file in place."""
