"""The run directory, which contains everything that training writes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pamd import atomic_io
from pamd.errors import ConfigError, ResourceError, RunError, nearest
from pamd.runs import files
from pamd.runs.checkpoints import list_checkpoints
from pamd.runs.identity import check_layout
from pamd.runs.status import Budget, read_status, write_status

WEIGHTS = "model.safetensors"
"""The weights of an export. Model hubs expect this name, and run directories do not contain it."""

_NO_FLOCK = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF)
"""The errors of a file system that has no flock."""


def is_export(path: Path) -> bool:
    """Return whether `path` was written by `pamd export`."""
    return (path / WEIGHTS).is_file()


def read_config_tree(file: Path) -> dict[str, Any]:
    """Read a config.json of the current layout as plain data."""
    try:
        tree = files.read_json(file.parent, file.name)
    except OSError as error:
        raise ConfigError(f"cannot read the config file {file}: {error.strerror or error}") from None
    except ValueError as error:
        raise ConfigError(f"{file} is not valid JSON: {error}") from None
    return check_layout(tree, str(file))


class RunDirectory:
    """The paths, lock and status of one run.

    config.json, versions.json, train.jsonl, eval.jsonl, timing.jsonl, status.json, checkpoints/, replay/, video/,
    tensorboard/; .lock while a run is in use on a file system without flock.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.config_file = path, path / "config.json"
        self.checkpoints, self.replay, self.video = path / "checkpoints", path / "replay", path / "video"
        self.lock_file = path / files.LOCK

    @staticmethod
    def open(path: Path) -> RunDirectory:
        """Open the run in `path`. Raises RunError if it is not a run directory."""
        run = RunDirectory(path)
        if not run.config_file.is_file():
            siblings = [p.parent.name for p in path.parent.glob("*/config.json")]
            hint = nearest(path.name, siblings)
            inside = sorted(path.glob("*/config.json"), key=lambda file: file.stat().st_mtime)
            near = inside[-1].parent if inside else path.parent / hint if hint else None
            meant = f" Did you mean {near}?" if near else ""
            raise RunError(f"{path} is not a run directory: it has no config.json.{meant}")
        if is_export(path):
            raise RunError(f"{path} is an export, not a run directory: it has weights but no checkpoints and no replay")
        return run

    def config_tree(self) -> dict[str, Any]:
        """Return the content of config.json as plain data."""
        return read_config_tree(self.config_file)

    @contextmanager
    def locked(self, write: bool = True, say: Callable[[str], None] = lambda message: None) -> Iterator[None]:
        """Lock the run for this process. Raises RunError if another process has locked it.

        The directory itself is locked, so deleting a file does not release the lock. Nothing is written, unless the
        file system has no flock: then a lock file names this host and process, and `say` gets a message.
        """
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise RunError(f"cannot open the run directory {self.path}: {error}") from None
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, handle)
            refused = _flock(handle, self.path)
            _refuse_owner(self.lock_file)
            if write:
                atomic_io.check_directory(self.path, "the run directory")
            if write and not refused:
                self.lock_file.unlink(missing_ok=True)  # Its process is dead.
            elif write:
                say(f"{self.path}: its file system has no locks ({refused}); {self.lock_file} locks the run instead")
                stack.callback(_create_lock_file(self.lock_file).unlink, missing_ok=True)
            yield

    def write_status(self, state: str, budget: Budget, **fields: Any) -> None:
        """Write the state (running, finished, interrupted or failed) and the progress."""
        write_status(self.path, state, budget, **fields)

    def finished(self, decisions: int) -> bool:
        """Return whether the run has finished with at least this budget.

        The status file may have been edited, so the newest checkpoint must not contradict it.
        """
        status, saved = read_status(self.path), list_checkpoints(self.checkpoints)
        if status.state != "finished" or status.decisions is None:
            return False
        return min([status.decisions, *(int(path.name) for path in saved[:1])]) >= decisions


def _flock(handle: int, path: Path) -> str:
    """Lock an open directory. Returns the reason if its file system has no flock; otherwise ""."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RunError(f"{path} is in use by another process") from None
    except OSError as error:
        if error.errno not in _NO_FLOCK:
            raise ResourceError(f"cannot lock the run directory {path}: {error}") from None
        return error.strerror or str(error)
    return ""


def _create_lock_file(path: Path) -> Path:
    """Write a lock file with this host and process. Raises RunError if another process is faster."""
    try:
        if path.exists():
            _remove_lock_file(path)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except (FileExistsError, FileNotFoundError):
        raise RunError(f"{path.parent} is in use by another process") from None
    except OSError as error:
        raise ResourceError(f"cannot write the lock file {path}: {error}") from None
    with open(handle, "wb") as file:
        file.write(json.dumps({"host": platform.node(), "pid": os.getpid()}).encode())
    return path


def _remove_lock_file(path: Path) -> None:
    """Remove the lock file of a dead process. Another process may do the same, and may be a moment ahead."""
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    path.replace(aside)
    try:
        _refuse_owner(aside)
    except RunError:
        aside.replace(path)
        raise RunError(f"{path.parent} is in use by another process") from None
    aside.unlink()


def _refuse_owner(path: Path) -> None:
    """Raise RunError if the process of a lock file may be alive. Only processes of this host can be looked up."""
    try:
        owner = files.read_json(path.parent, path.name)
        host, pid = str(owner["host"]), int(owner["pid"])
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError):
        raise RunError(f"{path.parent} is in use by another process, or {path} is damaged; then delete it") from None
    if host == platform.node() and not _is_alive(pid):
        return
    raise RunError(
        f"{path.parent} is in use by process {pid} on {host}, according to {path.name}; if that process has ended,"
        f" delete {path}"
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
