"""The bytes of a finished run that must not depend on interruptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.errors import CheckpointError
from pamd.replay.files import Manifest
from pamd.training import checkpoint

__all__ = ["differing", "products"]

_STEP = ("actions", "rewards", "terminated")
"""Columns of the step after a frame. The newest frame has no step yet."""


def products(run: Path) -> dict[str, bytes]:
    """Return config, logs, the last checkpoint, the replay's window and the videos, without wall-clock times."""
    found = {name: (run / name).read_bytes() for name in ("config.json", "train.jsonl", "eval.jsonl")}
    found["timing.jsonl"] = _without_clock(run / "timing.jsonl")
    last = _last(run / "checkpoints")
    found["tensors.safetensors"] = (last / "tensors.safetensors").read_bytes()
    found["state.json"] = last.name.encode() + _state(last / "state.json")
    for path in sorted((run / "video").glob("*.mp4")):
        found[path.name] = path.read_bytes()
    return found | _replay(run / "replay")


def _last(checkpoints: Path) -> Path:
    found, _ = checkpoint.newest(checkpoints)
    if found is None:
        raise CheckpointError(f"{checkpoints} has no complete checkpoint")
    return found.path


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> dict[str, int]:
    """Return the number of different or missing bytes of each file that differs."""
    names = {**one, **other}
    counts = {name: _count(one.get(name, b""), other.get(name, b"")) for name in names}
    return {name: count for name, count in counts.items() if count or (name in one) != (name in other)}


def _count(one: bytes, other: bytes) -> int:
    length = min(len(one), len(other))
    a, b = (np.frombuffer(data[:length], np.uint8) for data in (one, other))
    return int(np.count_nonzero(a != b)) + abs(len(one) - len(other))


def _without_clock(path: Path) -> bytes:
    """Return the budget of every row. The other fields of timing.jsonl are times."""
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    return json.dumps([[row[name] for name in ("decisions", "frames", "updates")] for row in rows]).encode()


def _state(path: Path) -> bytes:
    state: dict[str, Any] = json.loads(path.read_bytes())
    del state["seconds"], state["logs"]["timing"]
    return json.dumps(state, sort_keys=True).encode()


def _replay(directory: Path) -> dict[str, bytes]:
    """Return the rows of every column that can be sampled. Other rows do not matter."""
    manifest = Manifest.load(directory)
    layout, written = manifest.layout, manifest.state.written
    window: NDArray[np.int64] = np.arange(max(0, written - layout.capacity), written)
    found = {}
    for name, column in layout.columns.items():
        rows = np.fromfile(directory / column.file, np.uint8).reshape(layout.slots, column.row_bytes)
        taken = window[:-1] if name in _STEP else window
        found[f"replay/{column.file}"] = rows[taken % layout.slots].tobytes()
    return found
