"""Checkpoints on disk. They are written atomically, verified when read, and contain no executable code.

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

from pamd import atomic_io
from pamd.errors import CheckpointError, ResourceError
from pamd.replay.files import State
from pamd.runs import files
from pamd.runs.logs import LOGS
from pamd.runs.status import Budget

KEPT = 2
_TENSORS, _STATE, _COMPLETE = "tensors.safetensors", "state.json", "complete.json"


def write_checkpoint(directory: Path, decisions: int, tensors: bytes, state: Mapping[str, Any]) -> None:
    """Save a checkpoint and delete all but the last two. `tensors` is the content of a safetensors file."""
    final = directory / f"{decisions:09d}"
    temporary = directory / f".writing-{os.getpid()}"
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        contents = {_TENSORS: tensors, _STATE: json.dumps(state).encode()}
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
        for name, data in {**contents, _COMPLETE: json.dumps(digests).encode()}.items():
            atomic_io.write(temporary / name, data)
        # A checkpoint of the same decision exists only after a resume at that decision. It has the same content.
        files.remove_temporary(final)
        temporary.rename(final)
        atomic_io.sync_directory(directory)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise ResourceError(f"cannot write a checkpoint in {directory}: {error}; the previous one is intact") from None
    for old in list_checkpoints(directory)[KEPT:]:
        files.remove_temporary(old)


def list_checkpoints(directory: Path) -> list[Path]:
    """List all checkpoints, newest first, including incomplete ones. Other names and links are ignored."""
    if not directory.is_dir() or directory.is_symlink():
        return []
    paths = [p for p in directory.iterdir() if re.fullmatch(r"[0-9]{9,18}", p.name) and not p.is_symlink()]
    return sorted(paths, key=lambda p: int(p.name), reverse=True)


def read_state(path: Path) -> dict[str, Any]:
    """Read state.json of the checkpoint in `path`. Raises CheckpointError if it is incomplete or damaged."""
    try:
        state = files.parse_json(_read(path, _STATE))
    except ValueError as error:
        raise CheckpointError(f"checkpoint {path.name} is malformed: {error}") from None
    if not isinstance(state, dict):
        raise CheckpointError(f"checkpoint {path.name} is malformed: {_STATE} does not contain an object")
    # The name of a checkpoint determines its age.
    budget = state.get("budget")
    decisions = budget.get("decisions") if isinstance(budget, dict) else None
    if decisions != int(path.name):
        raise CheckpointError(f"checkpoint {path.name} does not match its name: its state is at decision {decisions}")
    return state


def read_tensors(path: Path) -> bytes:
    """Read the safetensors file of the checkpoint in `path`. Raises CheckpointError if it is missing or damaged."""
    return _read(path, _TENSORS)


class Counters(NamedTuple):
    """The counters of a run at a checkpoint, and the newest value of each metric."""

    budget: Budget
    seconds: float
    """Wall time of training so far, across interruptions."""
    evaluated_at: int
    last_return: float | None
    episode_return: float
    episode_length: int
    metrics: dict[str, float]


def read_counters(path: Path, state: Mapping[str, Any]) -> Counters:
    """Read the counters from the state of the checkpoint in `path`.

    Raises CheckpointError if a part of the state is missing or has the wrong type.
    """
    try:
        State.parse(state["replay"])
        for name in LOGS:
            _count(state["logs"][name]["bytes"]), str(state["logs"][name]["sha256"])
        last = state["last_return"]
        return Counters(
            budget=Budget(**{name: _count(state["budget"][name]) for name in Budget._fields}),
            seconds=float(state["seconds"]),
            evaluated_at=int(state["evaluated_at"]),
            last_return=None if last is None else float(last),
            episode_return=float(state["episode"][0]),
            episode_length=_count(state["episode"][1]),
            metrics={str(name): float(value) for name, value in state["metrics"].items()},
        )
    except Exception as error:
        # A malformed state can raise any error.
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise CheckpointError(f"checkpoint {path.name} is malformed: {reason}") from None


def _read(path: Path, name: str) -> bytes:
    """Read a file of the checkpoint in `path`, and compare it with its digest."""
    try:
        digests = files.read_json(path, _COMPLETE)
        data = files.read(path, name)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"checkpoint {path.name} is incomplete: {error}") from None
    if not isinstance(digests, dict) or hashlib.sha256(data).hexdigest() != digests.get(name):
        raise CheckpointError(f"checkpoint {path.name} is damaged: {name} has changed since it was written")
    return data


def _count(value: Any) -> int:
    """Check that `value` is an integer of at least 0, and return it."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"a count must be a whole number of at least 0, got {value!r}")
    return value
