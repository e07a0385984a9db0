"""Logs: JSON lines that an interrupted run continues to the byte; TensorBoard and wandb as mirrors of them.

train.jsonl and eval.jsonl hold only what the config determines. Whatever a clock says is in timing.jsonl.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pamd.errors import ConfigError, ResourceError
from pamd.training.run import RunDirectory

__all__ = ["Logs"]

_FILES = ("train", "eval", "timing")


class Logs:
    """Appends rows; `offsets` and `rewind` make them part of a checkpoint."""

    def __init__(self, run: RunDirectory) -> None:
        self._paths = {name: run.path / f"{name}.jsonl" for name in _FILES}
        self._mirrors = _mirrors(run)

    def write(self, name: str, row: Mapping[str, Any]) -> None:
        """One row of train, eval or timing; it carries the budget."""
        try:
            with self._paths[name].open("a") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            raise ResourceError(f"cannot write {self._paths[name]}: {error}") from None
        for mirror in self._mirrors:
            mirror(name, row)

    def offsets(self) -> dict[str, int]:
        """How long each file is, durably."""
        lengths = {}
        for name, path in self._paths.items():
            with path.open("a") as file:
                os.fsync(file.fileno())
            lengths[name] = path.stat().st_size
        return lengths

    def rewind(self, offsets: Mapping[str, int]) -> None:
        """Cut each file back to what it was at a checkpoint."""
        for name, path in self._paths.items():
            with path.open("a") as file:
                file.truncate(offsets.get(name, 0))


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
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(directory))

    def mirror(name: str, row: Mapping[str, Any]) -> None:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in _scalars(name, row).items()]
        writer.add_event(Event(step=row["decisions"], summary=Summary(value=values)))
        writer.flush()

    return mirror


def _wandb(project: str, run: RunDirectory) -> Any:
    try:
        import wandb
    except ImportError:
        raise ConfigError("logging to Weights & Biases needs wandb: pip install 'pamd[wandb]'") from None
    wandb.init(project=project, name=run.path.name, id=run.path.name.replace("+", "-"), resume="allow")

    def mirror(name: str, row: Mapping[str, Any]) -> None:
        wandb.log(_scalars(name, row), step=row["decisions"])

    return mirror
