"""Read the files of a run directory safely. Links are not followed, and files outside the directory cannot be read."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pamd import atomic_io
from pamd.errors import RunError
from pamd.runs.campaigns import is_packed, read_packed

_MAX_DEPTH = 32
"""The maximum nesting depth in a file of a run. It is more than twice the depth that a run writes."""

LOCK = ".lock"
"""The lock file of a run on a file system without flock."""
_DIRECTORIES = ("checkpoints", "replay", "video", "tensorboard")
_TEMPORARIES = (
    ".status.json.*",
    ".config.json.*",
    ".versions.json.*",
    ".*.jsonl.*",
    "video/.*.mp4",
    "replay/.replay.json.*",
    "checkpoints/.writing-*",
    f"{LOCK}.*",
)

_OWN = re.compile(
    r"(config|status|versions)\.json|(train|eval|timing)\.jsonl|\.lock"
    r"|checkpoints(/\d{9,18}(/(tensors\.safetensors|state\.json|complete\.json))?)?"
    r"|replay(/(replay\.json|(frames|actions|rewards|terminated|age)\.(u8|f32|i32)))?"
    r"|video(/(evaluated-)?\d{9,18}\.mp4)?|tensorboard(/events\.out\.tfevents\..+)?|diagnostics(/.+)?"
)
"""The files and directories that this package writes to a run directory."""


def read(directory: Path, name: str) -> bytes:
    """Read the regular file `name` ("video/000001000.mp4") in a run directory. Raises OSError for anything else.

    A run of a campaign, FILE.parquet/RUN, is read like a directory.
    """
    if is_packed(directory):
        return read_packed(directory, name)
    *folders, last = _parts(name)
    folder = _open_directory(directory, folders)
    try:
        with open(atomic_io.open_regular(last, os.O_RDONLY, directory=folder), "rb") as file:
            return file.read()
    except OSError as error:
        raise OSError(error.errno, error.strerror) from None
    finally:
        os.close(folder)


def read_json(directory: Path, name: str) -> Any:
    """Read the JSON file `name` in a run directory. Raises OSError or ValueError if it cannot be read."""
    return parse_json(read(directory, name))


def parse_json(data: bytes) -> Any:
    """Parse JSON. Raises ValueError if it is invalid or nested too deeply."""
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    # A level takes a bracket, so most files, and nearly every row of a log, cannot be too deep.
    if data.count(b"{") + data.count(b"[") > _MAX_DEPTH:
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
        handle = _open_directory(directory, _parts(name))
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


def irregular(run: Path) -> list[tuple[Path, str]]:
    """List what is neither a file nor a directory in a run directory, with what it is. Nothing opens it."""
    kinds = []
    for path in _entries(run):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            kinds.append((path, "is a symbolic link; it is not followed"))
        elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            kinds.append((path, "is a pipe, a socket or a device; it is not opened"))
    return sorted(kinds)


def foreign(run: Path) -> list[Path]:
    """List the files and directories that neither training nor a command of this package writes to a run directory."""
    unknown = sorted(path for path in _entries(run) if not _OWN.fullmatch(path.relative_to(run).as_posix()))
    return [path for path in unknown if not any(parent in unknown for parent in path.parents)]


def shared_files(run: Path) -> list[Path]:
    """List the logs and the files of the replay that have a second name, as in a copy made with `cp -al`.

    Other files are replaced when they change, so a second name keeps the old content.
    """
    paths = (*run.glob("*.jsonl"), *run.glob("replay/*"))
    return sorted(path for path in paths if stat.S_ISREG(path.lstat().st_mode) and path.lstat().st_nlink > 1)


def _entries(run: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(run):
        yield from (Path(folder) / name for name in (*folders, *names))


def refuse_linked_directories(run: Path) -> None:
    """Raise RunError if a directory of the run is a link, because its files would be outside the run."""
    for name in _DIRECTORIES:
        if (run / name).is_symlink():
            raise RunError(f"{run / name} is a symbolic link; a run directory must contain its own files")


def _parts(name: str) -> tuple[str, ...]:
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or parts[0] == "/":
        raise OSError(errno.EINVAL, f"{name!r} is outside the run directory")
    return parts


def _open_directory(directory: Path, parts: Sequence[str]) -> int:
    """Open a subdirectory part by part, so that no part can be a link, and return its descriptor."""
    handle, path = os.open(directory, os.O_RDONLY | os.O_DIRECTORY), directory
    for part in parts:
        path = path / part
        try:
            inner = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY, dir_fd=handle)
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
    if depth > _MAX_DEPTH:
        raise ValueError(f"it is nested more than {_MAX_DEPTH} levels deep")
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, depth + 1)
