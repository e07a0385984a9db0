"""The progress of a run at a checkpoint: counters and metrics."""

from __future__ import annotations

from typing import Any, NamedTuple

from pamd.errors import CheckpointError
from pamd.replay.files import State
from pamd.training.checkpoint import Checkpoint
from pamd.training.log import LOGS
from pamd.types import Budget

__all__ = ["Progress", "read_progress"]


class Progress(NamedTuple):
    """Counters of a run, and the newest value of each metric."""

    budget: Budget
    seconds: float
    """Wall time of training so far, across interruptions."""
    evaluated_at: int
    last_return: float | None
    episode_return: float
    episode_length: int
    metrics: dict[str, float]


def read_progress(saved: Checkpoint) -> Progress:
    """Read the progress from a checkpoint. Raises CheckpointError if a part is missing or has the wrong type."""
    state = saved.state
    try:
        State.parse(state["replay"])
        for name in LOGS:
            _count(state["logs"][name]["bytes"]), str(state["logs"][name]["sha256"])
        last = state["last_return"]
        return Progress(
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
        raise CheckpointError(f"checkpoint {saved.path.name} is malformed: {reason}") from None


def _count(value: Any) -> int:
    """Check that `value` is an integer of at least 0, and return it."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"a count must be a whole number of at least 0, got {value!r}")
    return value
