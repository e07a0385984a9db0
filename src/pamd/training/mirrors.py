"""Copies of the logs for TensorBoard and Weights & Biases."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pamd import atomic_io
from pamd.errors import ConfigError, install_command
from pamd.runs.logs import Mirror, convert_errors
from pamd.runs.status import Budget
from pamd.training.config import Runtime


def mirrors(run: Path, runtime: Runtime) -> list[Mirror]:
    """Return the mirrors that the runtime settings ask for."""
    wanted: list[Mirror] = []
    if runtime.tensorboard:
        wanted.append(_tensorboard(run / "tensorboard"))
    if runtime.wandb is not None:
        wanted.append(_wandb(runtime.wandb, run.name))
    return wanted


def _scalars(name: str, row: Mapping[str, Any]) -> dict[str, float]:
    values = {f"{name}/{k}": v for k, v in row.items() if isinstance(v, (int, float)) and k not in Budget._fields}
    for background, other in row.get("elsewhere", {}).items():
        values |= _scalars(f"{name}/{background}", other)
    return values


def _tensorboard(directory: Path) -> Mirror:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    path = directory / f"events.out.tfevents.{int(time.time())}.{platform.node()}.{os.getpid()}"

    def write(event: Any) -> None:
        # TensorBoard's own writer uses a thread, whose errors on a full disk cannot be caught.
        with convert_errors(path), atomic_io.open_file(path, "ab") as file:
            RecordWriter(file).write(event.SerializeToString())

    def mirror(name: str, row: Mapping[str, Any]) -> None:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in _scalars(name, row).items()]
        write(Event(wall_time=time.time(), step=row["decisions"], summary=Summary(value=values)))

    with convert_errors(directory):
        directory.mkdir(exist_ok=True)
    write(Event(wall_time=time.time(), file_version="brain.Event:2"))
    return mirror


def _wandb(project: str, name: str) -> Mirror:
    try:
        import wandb
    except ImportError:
        raise ConfigError(f"logging to Weights & Biases requires wandb: {install_command('wandb')}") from None
    wandb.init(project=project, name=name, id=name.replace("+", "-"), resume="allow")

    def mirror(log: str, row: Mapping[str, Any]) -> None:
        wandb.log(_scalars(log, row), step=row["decisions"])

    return mirror
