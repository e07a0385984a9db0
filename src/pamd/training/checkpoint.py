"""Checkpoints with their tensors. `pamd.runs.checkpoints` reads and writes the files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from pamd.errors import CheckpointError
from pamd.runs.checkpoints import list_checkpoints, read_state, read_tensors, write_checkpoint


class Checkpoint(NamedTuple):
    """The content of a checkpoint and its path."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]
    path: Path


def write(directory: Path, decisions: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Save a checkpoint and delete all but the last two."""
    write_checkpoint(directory, decisions, encode(tensors), state)


def encode(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return the content of a safetensors file."""
    from safetensors.torch import save

    return save({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, metadata)


def read(path: Path) -> Checkpoint:
    """Read the checkpoint in `path`. Raises CheckpointError if it is incomplete or damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    state, data = read_state(path), read_tensors(path)
    try:
        return Checkpoint(load(data), state, path)
    except (ValueError, SafetensorError, KeyError, RuntimeError, TypeError) as error:
        raise CheckpointError(f"checkpoint {path.name} is malformed: {error}") from None


def newest(directory: Path) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest complete checkpoint, or None, and the problems of all newer ones."""
    complaints: list[str] = []
    for path in list_checkpoints(directory):
        try:
            return read(path), complaints
        except CheckpointError as error:
            complaints.append(str(error))
    return None, complaints
