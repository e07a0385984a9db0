"""Safe repairs of a run directory, which never invent data. Each repair returns a description of what it did."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from pamd import durable
from pamd.errors import CheckpointError
from pamd.table import counted
from pamd.training import checkpoint
from pamd.training.leftovers import remove_temporary
from pamd.training.run import RunDirectory
from pamd.types import Budget
from pamd.version import __version__

__all__ = [
    "REPAIRS",
    "damaged_rows",
    "drop_damaged_rows",
    "drop_temporary",
    "mark_interrupted",
    "remove_checkpoint",
    "truncate_log",
]

REPAIRS = "repairs.jsonl"
"""The log of repairs that removed data written by training, one row per repair."""


def drop_temporary(path: Path) -> str:
    """Delete a temporary file of a killed process."""
    remove_temporary(path)
    return "removed"


def remove_checkpoint(path: Path) -> str:
    """Delete an incomplete checkpoint."""
    shutil.rmtree(path)
    return "removed"


def mark_interrupted(run: RunDirectory, budget: Budget) -> str:
    """Set the status so that the run can be resumed."""
    run.write_status("interrupted", **budget._asdict())
    return f"set to interrupted at decision {budget.decisions}"


def truncate_log(path: Path, length: int) -> str:
    """Truncate a log to its length at the checkpoint, as a resume does."""
    size = path.stat().st_size
    handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    try:
        os.ftruncate(handle, length)
        os.fsync(handle)
    finally:
        os.close(handle)
    return f"truncated by {size - length} bytes"


def damaged_rows(content: bytes) -> list[int]:
    """Return the numbers, from 1, of log rows that are not JSON objects, including an unfinished last row."""
    return [number for number, row in enumerate(_rows(content), start=1) if not _readable(row)]


def drop_damaged_rows(run: RunDirectory, name: str) -> str:
    """Drop the rows of a log that cannot be read.

    Each checkpoint gets the length and digest of the remaining rows, so that the run can be resumed. The dropped rows
    are listed in repairs.jsonl, which no command removes.
    """
    path = run.path / f"{name}.jsonl"
    content = durable.read(path)
    numbers = damaged_rows(content)
    dropped = [row for row in _rows(content) if not _readable(row)]
    _record_repair(run.path, path.name, numbers, sum(map(len, dropped)), hashlib.sha256(content).hexdigest())
    for place in reversed(checkpoint.all_in(run.checkpoints)):
        try:
            saved = checkpoint.read(place)
        except CheckpointError:
            continue
        logs = saved.state["logs"]
        left = _without_damaged(content, logs[name]["bytes"])
        entry = {"bytes": len(left), "sha256": hashlib.sha256(left).hexdigest()}
        state = {**saved.state, "logs": {**logs, name: entry}}
        checkpoint.write(run.checkpoints, int(place.name), saved.tensors, state)
    durable.replace(path, _without_damaged(content, len(content)))
    return f"dropped {counted(len(numbers), 'row')}: {', '.join(map(str, numbers[:10]))}; see {REPAIRS}"


def _record_repair(run: Path, file: str, rows: list[int], size: int, digest: str) -> None:
    """Append a row to repairs.jsonl."""
    path = run / REPAIRS
    before = durable.read(path) if path.exists() else b""
    row: dict[str, Any] = {"file": file, "dropped_rows": rows, "dropped_bytes": size, "sha256_before": digest}
    row |= {"pamd": __version__, "time": round(time.time(), 3)}
    durable.replace(path, before + json.dumps(row).encode() + b"\n")


def _rows(content: bytes) -> list[bytes]:
    # bytes.splitlines would also split at a carriage return.
    rows = [row + b"\n" for row in content.split(b"\n")]
    last = rows.pop()[:-1]
    return [*rows, last] if last else rows


def _without_damaged(content: bytes, length: int) -> bytes:
    """Return the readable rows within the first `length` bytes."""
    left, end = b"", 0
    for row in _rows(content):
        end += len(row)
        if end <= length and _readable(row):
            left += row
    return left


def _readable(row: bytes) -> bool:
    try:
        return row.endswith(b"\n") and isinstance(json.loads(row), dict)
    except (ValueError, RecursionError):
        return False
