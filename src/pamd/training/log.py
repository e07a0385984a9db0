"""Logs: JSON lines that a resumed run continues byte for byte, with copies for TensorBoard and wandb.

train.jsonl and eval.jsonl contain only values that the config determines. All wall-clock times are in timing.jsonl. A
checkpoint stores the length and digest of each file, so that a resume can verify the rows and continue after them.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pamd import durable
from pamd.errors import ConfigError, ResourceError, RunError
from pamd.training.run import RunDirectory

__all__ = ["LOGS", "Logs", "split_log"]

LOGS = ("train", "eval", "timing")


class Logs:
    """Appends rows to the logs. `state` and `restore` make them part of a checkpoint."""

    def __init__(self, run: RunDirectory) -> None:
        self._paths = {name: run.path / f"{name}.jsonl" for name in LOGS}
        self._lengths = dict.fromkeys(LOGS, 0)
        self._digests = {name: hashlib.sha256() for name in LOGS}
        self._mirrors = _mirrors(run)

    def begin(self) -> None:
        """Create empty log files."""
        for path in self._paths.values():
            with _convert_errors(path):
                durable.write(path, b"")

    def write(self, name: str, row: Mapping[str, Any]) -> None:
        """Append a row, which includes the budget, to train, eval or timing."""
        data = (json.dumps(row) + "\n").encode()
        with _convert_errors(self._paths[name]):
            durable.append(self._paths[name], data)
        self._lengths[name] += len(data)
        self._digests[name].update(data)
        for mirror in self._mirrors:
            mirror(name, row)

    def state(self) -> dict[str, dict[str, Any]]:
        """Make all files durable and return their lengths and digests."""
        for name, path in self._paths.items():
            with _convert_errors(path):
                length, wanted = durable.sync(path), self._lengths[name]
            if length != wanted:
                raise RunError(f"{path} has {length} bytes, but {wanted} were written: another process changed it")
        return {name: {"bytes": self._lengths[name], "sha256": self._digests[name].hexdigest()} for name in LOGS}

    def restore(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Truncate each file to its length at a checkpoint. Raises RunError if the earlier content has changed."""
        for name, path in self._paths.items():
            rows, _ = split_log(path, state[name])
            with _convert_errors(path):
                os.truncate(path, len(rows))
            self._lengths[name], self._digests[name] = len(rows), hashlib.sha256(rows)


def split_log(path: Path, entry: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the rows up to a checkpoint and the rest. Raises RunError if the rows do not match `entry`.

    `entry` holds the log's length and digest at the checkpoint.
    """
    with _convert_errors(path):
        content = durable.read(path)
    length = entry["bytes"]
    if len(content) < length:
        missing = length - len(content)
        raise RunError(f"{path} is damaged: {missing} of the {length} bytes at the checkpoint are missing")
    rows = content[:length]
    if hashlib.sha256(rows).hexdigest() != entry["sha256"]:
        raise RunError(f"{path} is damaged: its first {length} bytes have changed since they were written")
    return rows, content[length:]


@contextmanager
def _convert_errors(path: Path) -> Iterator[None]:
    """Convert an OSError for `path`: a missing file to a RunError, all others to a ResourceError."""
    try:
        yield
    except FileNotFoundError:
        raise RunError(f"{path} is missing: it was deleted") from None
    except OSError as error:
        raise ResourceError(f"cannot use {path}: {error}") from None


def _mirrors(run: RunDirectory) -> list[Any]:
    runtime = run.config.runtime
    found: list[Any] = []
    if runtime.tensorboard:
        found.append(_tensorboard(run.path / "tensorboard"))
    if runtime.wandb is not None:
        found.append(_wandb(runtime.wandb, run))
    return found


def _scalars(name: str, row: Mapping[str, Any]) -> dict[str, float]:
    units = ("decisions", "frames", "updates")
    return {f"{name}/{k}": v for k, v in row.items() if isinstance(v, (int, float)) and k not in units}


def _tensorboard(directory: Path) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    path = directory / f"events.out.tfevents.{int(time.time())}.{platform.node()}.{os.getpid()}"

    def write(event: Any) -> None:
        # TensorBoard's own writer uses a thread, whose errors on a full disk cannot be caught.
        with _convert_errors(path), open(path, "ab") as file:
            RecordWriter(file).write(event.SerializeToString())

    def mirror(name: str, row: Mapping[str, Any]) -> None:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in _scalars(name, row).items()]
        write(Event(wall_time=time.time(), step=row["decisions"], summary=Summary(value=values)))

    with _convert_errors(directory):
        directory.mkdir(exist_ok=True)
    write(Event(wall_time=time.time(), file_version="brain.Event:2"))
    return mirror


def _wandb(project: str, run: RunDirectory) -> Any:
    try:
        import wandb
    except ImportError:
        raise ConfigError("logging to Weights & Biases requires wandb: pip install 'pamd[wandb]'") from None
    wandb.init(project=project, name=run.path.name, id=run.path.name.replace("+", "-"), resume="allow")

    def mirror(name: str, row: Mapping[str, Any]) -> None:
        wandb.log(_scalars(name, row), step=row["decisions"])

    return mirror
