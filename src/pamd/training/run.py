"""The run directory, which contains everything that training writes."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pamd import durable
from pamd.errors import ResourceError, RunError, nearest
from pamd.training import checkpoint
from pamd.training.config import Runtime, TrainConfig, config_text, read_config, run_name
from pamd.training.exported import is_export
from pamd.training.versions import versions

__all__ = ["RunDirectory", "lock", "write_atomically"]


def write_atomically(path: Path, text: str) -> None:
    """Replace the content of a file atomically."""
    try:
        durable.replace(path, text.encode())
    except OSError as error:
        raise ResourceError(f"cannot write {path}: {error}") from None


@contextmanager
def lock(directory: Path) -> Iterator[None]:
    """Lock a run directory for this process. Raises RunError if another process has locked it.

    The directory itself is locked, so deleting a file does not release the lock. Nothing is written.
    """
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise RunError(f"cannot open the run directory {directory}: {error}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(f"{directory} is in use by another process") from None
        yield
    finally:
        os.close(handle)


class RunDirectory:
    """The paths, config and status of one run.

    config.json, versions.json, train.jsonl, eval.jsonl, timing.jsonl, status.json, checkpoints/, replay/, video/,
    tensorboard/.
    """

    def __init__(self, path: Path, config: TrainConfig, new: bool = False) -> None:
        self.path, self.config, self.new = path, config, new
        self.checkpoints, self.replay, self.video = path / "checkpoints", path / "replay", path / "video"

    @staticmethod
    def create(root: Path, config: TrainConfig) -> RunDirectory:
        """Open the directory of `config` in `root`. If it does not exist, it is created and `new` is true."""
        path = root / run_name(config)
        if (path / "config.json").exists():
            found = RunDirectory.open(path, config.runtime)
            if run_name(found.config) != run_name(config):
                raise RunError(
                    f"{path} contains a run with another config; remove it, or choose another --runs directory"
                )
            found.extend(config.decisions)
            return found
        new = not path.exists()
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot create the run directory {path}: {error}") from None
        run = RunDirectory(path, config, new=new)
        run.write_config()
        return run

    @staticmethod
    def open(path: Path, runtime: Runtime | None = None) -> RunDirectory:
        """Open the run in `path`. `runtime` replaces the runtime settings of its config."""
        file = path / "config.json"
        if not file.is_file():
            siblings = [p.parent.name for p in path.parent.glob("*/config.json")]
            hint = nearest(path.name, siblings)
            meant = f" Did you mean {path.parent / hint}?" if hint else ""
            raise RunError(f"{path} is not a run directory: it has no config.json.{meant}")
        if is_export(path):
            raise RunError(f"{path} is an export, not a run directory: it has weights but no checkpoints and no replay")
        config = read_config(file)
        if runtime is not None:
            config = dataclasses.replace(config, runtime=runtime)
        return RunDirectory(path, config)

    def write_config(self) -> None:
        """Write config.json."""
        write_atomically(self.path / "config.json", config_text(self.config))

    def extend(self, decisions: int) -> None:
        """Raise the budget to `decisions`. A smaller number has no effect."""
        if decisions > self.config.decisions:
            self.config = dataclasses.replace(self.config, decisions=decisions)

    def write_versions(self) -> None:
        """Add the current software versions to versions.json."""
        file = self.path / "versions.json"
        try:
            entries = list(json.loads(durable.read(file)))
        except (OSError, ValueError, TypeError, RecursionError):
            entries = []
        now = versions()
        if not entries or entries[-1] != now:
            write_atomically(file, json.dumps([*entries, now], indent=1) + "\n")

    def remove(self) -> None:
        """Delete the directory if this object created it, so that a rejected run leaves nothing behind."""
        if self.new:
            shutil.rmtree(self.path, ignore_errors=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run for writing. Raises RunError if another process has locked it."""
        with lock(self.path):
            durable.check_directory(self.path, "the run directory")
            yield

    def write_status(self, state: str, **fields: Any) -> None:
        """Write the state (running, finished, interrupted or failed) and the progress."""
        row = {"state": state, "pid": os.getpid(), "time": round(time.time(), 3), **fields}
        write_atomically(self.path / "status.json", json.dumps(row, indent=1) + "\n")

    def status(self) -> dict[str, Any]:
        """Read the status, or {} if it cannot be read."""
        try:
            return dict(json.loads(durable.read(self.path / "status.json")))
        except (OSError, ValueError, TypeError, RecursionError):
            return {}

    @property
    def finished(self) -> bool:
        """Whether the status is finished and no checkpoint contradicts it. The status file may have been edited."""
        status, saved = self.status(), checkpoint.all_in(self.checkpoints)
        done = status.get("decisions")
        if status.get("state") != "finished" or not isinstance(done, int):
            return False
        return min([done, *(int(path.name) for path in saved[:1])]) >= self.config.decisions
