"""Crash-safe files: all content is written and synced to disk before a file gets its final name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from pamd.errors import ResourceError


def check_directory(path: Path, what: str) -> None:
    """Raise ResourceError unless the directory `path` is writable, or can be created."""
    ancestor = path.expanduser().absolute()
    while not ancestor.exists() and ancestor != ancestor.parent:
        ancestor = ancestor.parent
    if not ancestor.is_dir():
        raise ResourceError(f"{what} {path} must be a directory, but {ancestor} is a file")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        raise ResourceError(f"{what} {path} cannot be written: no permission in {ancestor}")


def open_file(path: Path, mode: str) -> IO[bytes]:
    """Open a file in binary mode. A symbolic link is an error, because its target is not part of the run."""
    return open(path, mode, opener=_no_link)


def read(path: Path) -> bytes:
    """Return the content of a file."""
    with open_file(path, "rb") as file:
        return file.read()


def append(path: Path, data: bytes) -> None:
    """Append data to an existing file."""
    with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "ab") as file:
        file.write(data)


def sync(path: Path) -> int:
    """Sync a file to disk and return its length."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(handle)
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def write(path: Path, data: bytes) -> None:
    """Write a file and sync it to disk."""
    with open_file(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace(path: Path, data: bytes) -> None:
    """Replace the content of `path` atomically. Readers see either the old or the new content, even after a crash."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(temporary, data)
        os.replace(temporary, path)
        sync_directory(path.parent)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def sync_directory(directory: Path) -> None:
    """Sync a directory to disk. A new file name survives a crash only after its directory is synced."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
