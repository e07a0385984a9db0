"""Find the time to a target return in the logs of a run. Times are those of evaluations and are not interpolated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pamd.report.logs import read_evaluations, read_timing

__all__ = ["Outcome", "Point", "outcome", "points", "read_points"]

_NOT_TRAINING = ("evaluation", "checkpoint")
"""Sections of the clock that do not count as training."""

State = Literal["reached", "limit", "budget", "unfinished"]


class Point(NamedTuple):
    """An evaluation, and the training time before it."""

    seconds: float
    """Wall time of training, without evaluations and checkpoints."""
    cpu_seconds: float
    """CPU time of the process during these seconds."""
    decisions: int
    frames: int
    mean: float
    """The mean return over the episodes of the evaluation."""


class Outcome(NamedTuple):
    """The outcome of a run, at the evaluation that reached the target return or at the last one that counts."""

    state: State
    point: Point
    area: float
    """The mean return over the time limit, clipped at the threshold. A run that reaches the threshold keeps it
    until the limit."""

    @property
    def over(self) -> bool:
        """Whether the run needs no further training."""
        return self.state != "unfinished"


def read_points(run: Path) -> list[Point]:
    """Return the evaluations of a run directory; empty if it has none yet."""
    if not (run / "eval.jsonl").is_file() or not (run / "timing.jsonl").is_file():
        return []
    return points(read_evaluations(run / "eval.jsonl").rows, read_timing(run / "timing.jsonl").rows)


def points(evaluations: Sequence[Mapping[str, Any]], timing: Sequence[Mapping[str, Any]]) -> list[Point]:
    """Return each evaluation with the training time of all rows of `timing` up to it."""
    found, clock, cpu, before, row = [], 0.0, 0.0, 0.0, 0
    for evaluation in evaluations:
        while row < len(timing) and timing[row]["decisions"] <= evaluation["decisions"]:
            taken = timing[row]["seconds"] - before
            before = timing[row]["seconds"]
            trained = taken * (1 - sum(timing[row].get(name, 0.0) for name in _NOT_TRAINING))
            clock, cpu, row = clock + trained, cpu + trained * timing[row].get("cpu", 1.0), row + 1
        found.append(Point(clock, cpu, evaluation["decisions"], evaluation["frames"], evaluation["return_mean"]))
    return found


def outcome(found: Sequence[Point], threshold: float, limit: float, budget: int) -> Outcome:
    """Find the first evaluation with at least the return `threshold`, within `limit` seconds and `budget` decisions."""
    if not found:
        return Outcome("unfinished", Point(0.0, 0.0, 0, 0, 0.0), 0.0)
    within = [point for point in found if point.seconds <= limit] or [found[0]]
    first = next((i for i, point in enumerate(within) if point.mean >= threshold), None)
    if first is not None:
        return Outcome("reached", within[first], _area(within[: first + 1], threshold, limit))
    state: State = "unfinished"
    if found[-1].seconds >= limit:
        state = "limit"
    elif found[-1].decisions >= budget:
        state = "budget"
    return Outcome(state, within[-1], _area(within, threshold, limit))


def _area(found: Sequence[Point], threshold: float, limit: float) -> float:
    """Return the mean over [0, limit] of a step function that holds each return until the next evaluation."""
    ends = [*(point.seconds for point in found[1:]), limit]
    spans = [max(0.0, end - point.seconds) for point, end in zip(found, ends, strict=True)]
    return sum(span * min(point.mean, threshold) for span, point in zip(spans, found, strict=True)) / limit
