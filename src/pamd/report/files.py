"""Read files in a run directory safely. Links are not followed, and files outside the directory cannot be read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path, PurePosixPath

from pamd.runs.campaigns import is_packed, read_packed

__all__ = ["is_inside", "names_in", "read"]


def read(directory: Path, name: str) -> bytes:
    """Read the regular file `name` ("video/000001000.mp4") in a run directory. Raises OSError for anything else.

    A run of a campaign, FILE.parquet/RUN, is read like a directory.
    """
    if is_packed(directory):
        return read_packed(directory, name)
    handle = _open(directory, name)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return file.read()


def names_in(directory: Path, name: str) -> list[str]:
    """Return the sorted names in the subdirectory `name` of a run directory; empty if it cannot be opened."""
    try:
        handle = _open(directory, name, os.O_DIRECTORY)
    except OSError:
        return []
    try:
        return sorted(os.listdir(handle))
    finally:
        os.close(handle)


def is_inside(directory: Path, name: str) -> bool:
    """Return whether `name` in a run directory is a regular file and no part of its path is a link."""
    path = directory
    for part in PurePosixPath(name).parts:
        path = path / part
        if path.is_symlink():
            return False
    return path.is_file()


def _open(directory: Path, name: str, flags: int = 0) -> int:
    """Open `name` part by part, so that no part can be a link."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or parts[0] == "/":
        raise OSError(errno.EINVAL, f"{name!r} is outside the run directory")
    # With O_NONBLOCK, a named pipe cannot block the report.
    kinds = [os.O_DIRECTORY] * (len(parts) - 1) + [os.O_NONBLOCK | flags]
    handle, path = os.open(directory, os.O_RDONLY | os.O_DIRECTORY), directory
    for part, kind in zip(parts, kinds, strict=True):
        path = path / part
        try:
            inner = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | kind, dir_fd=handle)
        except OSError as error:
            reason = "it is a symbolic link" if path.is_symlink() else error.strerror
            raise OSError(error.errno, reason) from None
        finally:
            os.close(handle)
        handle = inner
    return handle
