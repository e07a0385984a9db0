"""Crash-safe files: all content is written and synced to disk before a file gets its final name.

`open_regular` opens every file of a run. A link would lead out of the run, and a pipe or a device could block forever.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

from pamd.errors import ResourceError

_IRREGULAR = "it is not a regular file"
_CHUNK = 16 << 20
"""The bytes that a copy reads at once."""


def user_cache() -> Path:
    """Return the folder for files that only save time: PAMD_CACHE, or the user's cache. It may be deleted any time."""
    if pamd_cache := os.environ.get("PAMD_CACHE"):
        return Path(pamd_cache).expanduser()
    user_cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(user_cache) if user_cache else Path.home() / ".cache") / "pamd"


def check_directory(path: Path, what: str) -> None:
    """Raise ResourceError unless the directory `path` is writable, or can be created."""
    ancestor = path.expanduser().absolute()
    while not ancestor.exists() and ancestor != ancestor.parent:
        ancestor = ancestor.parent
    if not ancestor.is_dir():
        raise ResourceError(f"{what} {path} must be a directory, but {ancestor} is a file")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        raise ResourceError(f"{what} {path} cannot be written: no permission in {ancestor}")


def open_regular(path: str | Path, flags: int, *, directory: int | None = None, links: bool = False) -> int:
    """Open a regular file and return its descriptor. Raises OSError for a pipe, device or directory without waiting.

    `directory` is the descriptor of the directory that a relative path starts at. `links` allows a symbolic link.
    """
    # O_NONBLOCK: a pipe without a writer does not block the reader. It has no effect on a regular file.
    # O_NOCTTY: a terminal does not take over this process.
    flags |= os.O_NONBLOCK | os.O_NOCTTY | (0 if links else os.O_NOFOLLOW)
    try:
        handle = os.open(path, flags, 0o666, dir_fd=directory)
    except OSError as error:
        # The system's words, "too many levels" and "no such device or address", would mislead.
        reason = {errno.ELOOP: "it is a symbolic link", errno.ENXIO: _IRREGULAR}.get(error.errno or 0, error.strerror)
        raise OSError(error.errno, reason, str(path)) from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is a directory" if stat.S_ISDIR(mode) else _IRREGULAR, str(path))
    return handle


def open_file(path: Path, mode: str, *, links: bool = False) -> IO[bytes]:
    """Open a regular file in binary mode. A symbolic link is an error unless `links` is true."""
    return open(path, mode, opener=lambda name, flags: open_regular(name, flags, links=links))


def read(path: Path, *, links: bool = False) -> bytes:
    """Return the content of a regular file."""
    with open_file(path, "rb", links=links) as file:
        return file.read()


def append(path: Path, data: bytes) -> None:
    """Append data to an existing file."""
    with open(open_regular(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
        file.write(data)


def sync(path: Path) -> int:
    """Sync a file to disk and return its length."""
    handle = open_regular(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


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


def unshare(path: Path) -> None:
    """Copy a file that has a second name, a hard link, so that writing to `path` does not change the other file."""
    with open_file(path, "rb") as source:
        if os.fstat(source.fileno()).st_nlink < 2:
            return
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with open_file(temporary, "wb") as target:
                _copy(source.fileno(), target.fileno())
                os.fsync(target.fileno())
            os.replace(temporary, path)
            sync_directory(path.parent)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def _copy(source: int, target: int) -> None:
    """Copy a file. Its holes stay holes: most of a new replay is one."""
    size, end = os.fstat(source).st_size, 0
    os.ftruncate(target, size)
    while end < size:
        try:
            start = os.lseek(source, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # Only a hole is left.
                return
            raise
        end = os.lseek(source, start, os.SEEK_HOLE)
        for at in range(start, end, _CHUNK):
            os.pwrite(target, os.pread(source, min(_CHUNK, end - at), at), at)


def sync_directory(directory: Path) -> None:
    """Sync a directory to disk. A new file name survives a crash only after its directory is synced."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
