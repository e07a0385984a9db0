"""From the logs of a run to the time of a return. Nothing is interpolated: times are those of evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pamd.report.logs import read_evaluations, read_timing

__all__ = ["Outcome", "Point", "outcome", "points", "read_points"]

_NOT_TRAINING = ("evaluation", "checkpoint")
"""Sections of the clock that are no training."""

State = Literal["reached", "limit", "budget", "unfinished"]


class Point(NamedTuple):
    """An evaluation, and the training time before it."""

    seconds: float
    """Wall time of training: without evaluations and checkpoints."""
    cpu_seconds: float
    """Processor time of the process in these seconds."""
    decisions: int
    frames: int
    mean: float
    """Return, the mean over the evaluation's episodes."""


class Outcome(NamedTuple):
    """How a run ended, and where: at the evaluation that reached the return, else at the last one that counts."""

    state: State
    point: Point
    area: float
    """Mean over the time limit of the return, cut off at the threshold; a run that reached it stays there."""

    @property
    def over(self) -> bool:
        """Whether there is nothing left to train."""
        return self.state != "unfinished"


def read_points(run: Path) -> list[Point]:
    """The evaluations of a run directory; empty where it has none yet."""
    if not (run / "eval.jsonl").is_file() or not (run / "timing.jsonl").is_file():
        return []
    return points(read_evaluations(run / "eval.jsonl").rows, read_timing(run / "timing.jsonl").rows)


def points(evaluations: Sequence[Mapping[str, Any]], timing: Sequence[Mapping[str, Any]]) -> list[Point]:
    """Each evaluation with the training time of all rows of `timing` up to it."""
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
    """Where the run first has the return `threshold`, if that is within `limit` seconds and `budget` decisions."""
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
    """The mean over [0, limit] of a step function: an evaluation's return holds until the next one."""
    ends = [*(point.seconds for point in found[1:]), limit]
    spans = [max(0.0, end - point.seconds) for point, end in zip(found, ends, strict=True)]
    return sum(span * min(point.mean, threshold) for span, point in zip(spans, found, strict=True)) / limit
