"""Checkpoints. They are written atomically, verified when read, and contain no executable code.

checkpoints/000010000/ contains tensors.safetensors, state.json, and complete.json with the digests of both. It is
written under a temporary name, synced to disk, and then renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from pamd import durable
from pamd.errors import CheckpointError, ResourceError
from pamd.training.leftovers import remove_temporary

__all__ = ["KEPT", "Checkpoint", "all_in", "newest", "read", "write"]

KEPT = 2
_TENSORS, _STATE, _COMPLETE = "tensors.safetensors", "state.json", "complete.json"


class Checkpoint(NamedTuple):
    """The content of a checkpoint and its path."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]
    path: Path


def write(directory: Path, decisions: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """Save a checkpoint and delete all but the last two."""
    from safetensors.torch import save

    final = directory / f"{decisions:09d}"
    temporary = directory / f".writing-{os.getpid()}"
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        contents = {
            _TENSORS: save({k: v.detach().cpu().contiguous() for k, v in tensors.items()}),
            _STATE: json.dumps(state).encode(),
        }
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
        for name, data in {**contents, _COMPLETE: json.dumps(digests).encode()}.items():
            durable.write(temporary / name, data)
        # A checkpoint of the same decision exists only after a resume at that decision. It has the same content.
        remove_temporary(final)
        temporary.rename(final)
        durable.sync_directory(directory)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise ResourceError(f"cannot write a checkpoint in {directory}: {error}; the previous one is intact") from None
    for old in all_in(directory)[KEPT:]:
        remove_temporary(old)
    return final


def newest(directory: Path) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest complete checkpoint, or None, and the problems of all newer ones."""
    complaints: list[str] = []
    for path in all_in(directory):
        try:
            return read(path), complaints
        except CheckpointError as error:
            complaints.append(str(error))
    return None, complaints


def read(path: Path) -> Checkpoint:
    """Read the checkpoint in `path`. Raises CheckpointError if it is incomplete or damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        digests = json.loads(durable.read(path / _COMPLETE))
        contents = {name: durable.read(path / name) for name in (_TENSORS, _STATE)}
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"checkpoint {path.name} is incomplete: {error}") from None
    for name, data in contents.items():
        if not isinstance(digests, dict) or hashlib.sha256(data).hexdigest() != digests.get(name):
            raise CheckpointError(f"checkpoint {path.name} is damaged: {name} has changed since it was written")
    try:
        state, tensors = json.loads(contents[_STATE]), load(contents[_TENSORS])
    except (ValueError, RecursionError, SafetensorError, KeyError, RuntimeError, TypeError) as error:
        raise CheckpointError(f"checkpoint {path.name} is malformed: {error}") from None
    if not isinstance(state, dict):
        raise CheckpointError(f"checkpoint {path.name} is malformed: {_STATE} does not contain an object")
    _check_name(path, state)
    return Checkpoint(tensors, state, path)


def _check_name(path: Path, state: Mapping[str, Any]) -> None:
    """Check that the name of a checkpoint matches its state. The name determines its age."""
    budget = state.get("budget")
    decisions = budget.get("decisions") if isinstance(budget, dict) else None
    if decisions != int(path.name):
        raise CheckpointError(f"checkpoint {path.name} does not match its name: its state is at decision {decisions}")


def all_in(directory: Path) -> list[Path]:
    """List all checkpoints, newest first, including incomplete ones. Other names and links are ignored."""
    if not directory.is_dir() or directory.is_symlink():
        return []
    found = [p for p in directory.iterdir() if re.fullmatch(r"[0-9]{9,18}", p.name) and not p.is_symlink()]
    return sorted(found, key=lambda p: int(p.name), reverse=True)
