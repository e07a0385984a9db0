"""The run directory, which contains everything that training writes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pamd import atomic_io
from pamd.errors import ConfigError, RunError, nearest
from pamd.runs import files
from pamd.runs.checkpoints import list_checkpoints
from pamd.runs.identity import check_layout
from pamd.runs.status import Budget, read_status, write_status, write_text

WEIGHTS = "model.safetensors"
"""The weights of an export. Model hubs expect this name, and run directories do not contain it."""


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
    tensorboard/.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.config_file = path, path / "config.json"
        self.checkpoints, self.replay, self.video = path / "checkpoints", path / "replay", path / "video"

    @staticmethod
    def open(path: Path) -> RunDirectory:
        """Open the run in `path`. Raises RunError if it is not a run directory."""
        run = RunDirectory(path)
        if not run.config_file.is_file():
            siblings = [p.parent.name for p in path.parent.glob("*/config.json")]
            hint = nearest(path.name, siblings)
            meant = f" Did you mean {path.parent / hint}?" if hint else ""
            raise RunError(f"{path} is not a run directory: it has no config.json.{meant}")
        if is_export(path):
            raise RunError(f"{path} is an export, not a run directory: it has weights but no checkpoints and no replay")
        return run

    def config_tree(self) -> dict[str, Any]:
        """Return the content of config.json as plain data."""
        return read_config_tree(self.config_file)

    def write_config(self, text: str) -> None:
        """Write config.json."""
        write_text(self.config_file, text)

    @contextmanager
    def locked(self, write: bool = True) -> Iterator[None]:
        """Lock the run for this process. Raises RunError if another process has locked it.

        The directory itself is locked, so deleting a file does not release the lock. Nothing is written.
        """
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise RunError(f"cannot open the run directory {self.path}: {error}") from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RunError(f"{self.path} is in use by another process") from None
            if write:
                atomic_io.check_directory(self.path, "the run directory")
            yield
        finally:
            os.close(handle)

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
