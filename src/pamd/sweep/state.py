"""Read the state of a run from its directory. Displays use it for all backends."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from pamd import durable

__all__ = ["RunState", "newest_row", "read_state"]

_TAIL = 16384


class RunState(NamedTuple):
    """The state of a run according to its files."""

    state: str
    """running, finished, interrupted, failed; "" if the run has not started."""
    decisions: int
    last_return: float | None
    """The mean return of the last evaluation."""
    error: str

    def finished(self, decisions: int) -> bool:
        """Return whether the run has finished with at least this budget."""
        return self.state == "finished" and self.decisions >= decisions


def read_state(run: Path) -> RunState:
    """Read a run directory, which may be incomplete or missing."""
    status = _status(run)
    evaluated, trained = newest_row(run / "eval.jsonl"), newest_row(run / "train.jsonl")
    done = max(_count(row.get("decisions")) for row in (status, evaluated, trained))
    last = evaluated.get("return_mean")
    mean = float(last) if isinstance(last, int | float) and abs(last) < sys.float_info.max else None
    return RunState(str(status.get("state", "")), done, mean, str(status.get("error", "")))


def newest_row(path: Path) -> dict[str, Any]:
    """Return the last complete row of a JSON-lines file, or {} if there is none."""
    try:
        with durable.open_file(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            *lines, _ = file.read().split(b"\n")
        return dict(json.loads(lines[-1]))
    except (OSError, ValueError, IndexError, TypeError, RecursionError):
        return {}


def _status(run: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(durable.read(run / "status.json")))
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


def _count(value: object) -> int:
    """Return `value` if it is a valid count; otherwise 0."""
    return value if isinstance(value, int) and 0 <= value < 2**63 else 0
