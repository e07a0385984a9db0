"""Read the files of a run directory safely. Links are not followed, and files outside the directory cannot be read."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from pathlib import Path, PurePosixPath
from typing import Any

from pamd.errors import RunError
from pamd.runs.campaigns import is_packed, read_packed

_DEEPEST = 32
"""The maximum nesting depth in a file of a run. It is more than twice the depth that a run writes."""

_DIRECTORIES = ("checkpoints", "replay", "video", "tensorboard")
_TEMPORARIES = (
    ".status.json.*",
    ".config.json.*",
    ".versions.json.*",
    ".*.jsonl.*",
    "video/.*.mp4",
    "replay/.replay.json.*",
    "checkpoints/.writing-*",
)


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


def read_json(directory: Path, name: str) -> Any:
    """Read the JSON file `name` in a run directory. Raises OSError or ValueError if it cannot be read."""
    return parse_json(read(directory, name))


def parse_json(data: bytes) -> Any:
    """Parse JSON. Raises ValueError if it is invalid or nested too deeply."""
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check_depth(value)
    return value


def printable(value: Any) -> Any:
    """Replace unprintable characters in strings and keys with escape sequences."""
    if isinstance(value, str):
        return value if value.isprintable() else "".join(map(_shown, value))
    if isinstance(value, dict):
        return {printable(key): printable(item) for key, item in value.items()}
    return [printable(item) for item in value] if isinstance(value, list) else value


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


def temporaries(run: Path) -> list[Path]:
    """List the temporary files and checkpoints that killed processes left behind."""
    return sorted(path for pattern in _TEMPORARIES for path in run.glob(pattern))


def remove_temporary(path: Path) -> None:
    """Delete a temporary file. The caller must hold the lock, because a live run uses its temporary files."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def links(run: Path) -> list[Path]:
    """List the symbolic links in a run directory. They are not followed."""
    return sorted(
        Path(folder) / name
        for folder, folders, files in os.walk(run)
        for name in (*folders, *files)
        if os.path.islink(os.path.join(folder, name))
    )


def refuse_linked_directories(run: Path) -> None:
    """Raise RunError if a directory of the run is a link, because its files would be outside the run."""
    for name in _DIRECTORIES:
        if (run / name).is_symlink():
            raise RunError(f"{run / name} is a symbolic link; a run directory must contain its own files")


def _open(directory: Path, name: str, flags: int = 0) -> int:
    """Open `name` part by part, so that no part can be a link."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or parts[0] == "/":
        raise OSError(errno.EINVAL, f"{name!r} is outside the run directory")
    # With O_NONBLOCK, a named pipe cannot block the reader.
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


def _shown(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def _check_depth(value: Any, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, depth + 1)
