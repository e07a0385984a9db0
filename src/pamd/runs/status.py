"""The status of a run: its state and its progress. Displays, sweeps and reports read it while the run is active."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from pamd import atomic_io
from pamd.errors import ResourceError
from pamd.runs import files
from pamd.runs.logs import newest_row

STATES = ("running", "finished", "interrupted", "failed")

_LATEST = 253402300800
"""The end of the year 9999 in Unix time, the latest date that Python supports."""


class Budget(NamedTuple):
    """The progress of a run, in the three units that every row of every log contains."""

    decisions: int = 0
    """Actions chosen by the agent. The paper calls them steps."""
    frames: int = 0
    """Simulator frames: a decision takes `action_repeat` of them, or fewer at the end of an episode."""
    updates: int = 0
    """Gradient updates."""


class Status(NamedTuple):
    """The content of status.json. It is only informative: the file may have been edited, or its process killed."""

    state: Any = None
    """One of `STATES` unless the file was edited; None if it cannot be read."""
    decisions: int | None = None
    time: float | None = None
    """The Unix time of the last update."""
    error: str = ""
    budget: Budget | None = None
    """Decisions, frames and updates; None unless all three are valid."""

    @property
    def known_state(self) -> str:
        """The state if it is one of `STATES`; otherwise ""."""
        return self.state if self.state in STATES else ""


def read_status(run: Path) -> Status:
    """Read the status of a run. A value that is missing or not valid is None."""
    try:
        row = files.read_json(run, "status.json")
    except (OSError, ValueError):
        return Status()
    if not isinstance(row, dict):
        return Status()
    at = row.get("time")
    counts = [_count(row.get(name)) for name in Budget._fields]
    return Status(
        row.get("state"),
        _count(row.get("decisions")),
        float(at) if isinstance(at, int | float) and 0 < at < _LATEST else None,
        str(row.get("error", "")),
        None if None in counts else Budget(*counts),  # type: ignore[arg-type]
    )


def write_status(run: Path, state: str, budget: Budget, **fields: Any) -> None:
    """Write the state, which is one of `STATES`, and the progress."""
    row = {"state": state, "pid": os.getpid(), "time": round(time.time(), 3), **fields, **budget._asdict()}
    write_text(run / "status.json", json.dumps(row, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace the content of a file of a run atomically."""
    try:
        atomic_io.replace(path, text.encode())
    except OSError as error:
        raise ResourceError(f"cannot write {path}: {error}") from None


class Progress(NamedTuple):
    """The state and progress of a run according to its status and its logs."""

    state: str
    """One of `STATES`; "" if the run has not started."""
    decisions: int
    last_return: float | None
    """The mean return of the last evaluation."""
    error: str

    def finished(self, decisions: int) -> bool:
        """Return whether the run has finished with at least this budget."""
        return self.state == "finished" and self.decisions >= decisions


def read_progress(run: Path) -> Progress:
    """Read the progress of a run whose directory may be incomplete or missing."""
    status = read_status(run)
    evaluated, trained = newest_row(run / "eval.jsonl"), newest_row(run / "train.jsonl")
    decisions = max(status.decisions or 0, *(_count(row.get("decisions")) or 0 for row in (evaluated, trained)))
    last = evaluated.get("return_mean")
    mean = float(last) if isinstance(last, int | float) and abs(last) < sys.float_info.max else None
    return Progress(status.known_state, decisions, mean, status.error)


def _count(value: object) -> int | None:
    """Return `value` if it is a valid count; otherwise None."""
    valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return value if valid else None  # type: ignore[return-value]
