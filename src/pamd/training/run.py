"""The run directory: the only product of training."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import time
from pathlib import Path
from typing import IO, Any

from pamd import durable
from pamd.config import from_json, to_json
from pamd.errors import ResourceError, RunError, nearest
from pamd.training.config import Runtime, TrainConfig, run_name

__all__ = ["RunDirectory", "write_atomically"]


def write_atomically(path: Path, text: str) -> None:
    """Replace a file by its whole new content, or leave it as it was."""
    try:
        durable.replace(path, text.encode())
    except OSError as error:
        raise ResourceError(f"cannot write {path}: {error}") from None


class RunDirectory:
    """Paths of one run, its config and its status.

    config.json, train.jsonl, eval.jsonl, timing.jsonl, status.json, checkpoints/, replay/, video/, tensorboard/.
    """

    def __init__(self, path: Path, config: TrainConfig) -> None:
        self.path, self.config = path, config
        self.checkpoints, self.replay, self.video = path / "checkpoints", path / "replay", path / "video"
        self._lock: IO[str] | None = None

    @staticmethod
    def create(root: Path, config: TrainConfig) -> RunDirectory:
        """The directory of `config` below `root`, made if it is not there."""
        path = root / run_name(config)
        if (path / "config.json").exists():
            found = RunDirectory.open(path)
            if run_name(found.config) != run_name(config):
                raise RunError(f"{path} holds a run of another config; remove it or choose another --runs directory")
            return RunDirectory(path, config)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot make the run directory {path}: {error}") from None
        write_atomically(path / "config.json", to_json(config) + "\n")
        return RunDirectory(path, config)

    @staticmethod
    def open(path: Path, runtime: Runtime | None = None) -> RunDirectory:
        """The run in `path`; `runtime` replaces how it is carried out."""
        file = path / "config.json"
        if not file.is_file():
            siblings = [p.parent.name for p in path.parent.glob("*/config.json")]
            hint = nearest(path.name, siblings)
            raise RunError(f"{path} is no run directory: it has no config.json" + (f"; near: {hint}" if hint else ""))
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"{file} cannot be read: {error}") from None
        config = from_json(TrainConfig, text, str(file))
        if runtime is not None:
            config = dataclasses.replace(config, runtime=runtime)
        return RunDirectory(path, config)

    def lock(self) -> None:
        """Take the run for this process; RunError where another one has it."""
        try:
            self._lock = (self.path / ".lock").open("w")
        except OSError as error:
            raise RunError(f"cannot write in the run directory {self.path}: {error}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise RunError(f"{self.path} is in use by another process") from None

    def unlock(self) -> None:
        """Give it back."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def write_status(self, state: str, **fields: Any) -> None:
        """running, finished, interrupted or failed, and how far."""
        row = {"state": state, "pid": os.getpid(), "time": round(time.time(), 3), **fields}
        write_atomically(self.path / "status.json", json.dumps(row, indent=1) + "\n")

    def status(self) -> dict[str, Any]:
        """The last status, or {} where there is none that can be read: it is only what a run says of itself."""
        try:
            return dict(json.loads((self.path / "status.json").read_text()))
        except (OSError, ValueError, TypeError):
            return {}
