"""What a sweep will take, before anything is started: time, memory, disk."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pamd.replay import Forecast, forecast
from pamd.sweep.job import Job
from pamd.sweep.state import look, newest_row
from pamd.training.config import TrainConfig
from pamd.training.session import replay_plan

__all__ = ["RATES", "Plan", "Rate", "plan"]

RATES = {
    ("paper", "sequential"): 0.72,
    ("paper", "joint"): 1.30,
    ("cpu", "sequential"): 11.1,
    ("cpu", "joint"): 13.8,
}
"""Decisions a second on two cores (scale, schedule): cheetah_run, simsr+pamd, `pamd bench pipeline`
(results/bench/pipeline.json). They stand for every task and method; the evaluations are on top."""
RATE_CORES = 2
OTHER_RATE = 40.0
"""Of scales that the benchmark does not measure: of the right order for `smoke`, whose time is mostly starting."""
EVALUATION_COST = {"paper": 0.03, "cpu": 0.08, "smoke": 0.3}
"""A decision of an evaluation as a part of one of training, which also learns (the same benchmark)."""
ACTIONS = 38
"""Of the suite's largest body: a bound, and a few bytes beside a frame."""
PROCESS = {"paper": 1.2e9, "cpu": 0.7e9, "smoke": 0.7e9}
"""Bytes of a run's process besides its replay, at its peak: libraries, networks, one update of simsr+pamd on a CPU."""
EPISODE_FRAMES = 1000
_STARTING = 6.0
"""Seconds until a process has its libraries and its environment."""


class Rate(NamedTuple):
    """Decisions a second of one run, and where the number is from."""

    value: float
    source: str


@dataclass(frozen=True)
class Plan:
    """The whole sweep, and what is left of it."""

    runs: int
    finished: int
    workers: int
    threads: int
    decisions: int
    """Still to be made."""
    seconds: float
    memory: int
    """Bytes at a time, of the largest runs that may go on together."""
    disk: int
    """Bytes of the replays that are still to be filled; where finished ones are discarded, of those at a time."""
    sources: tuple[str, ...]


def plan(jobs: Sequence[Job], workers: int, threads: int, discard_replay: bool = False) -> Plan:
    """Forecast; reads what is there of the runs already and starts nothing."""
    measured = _measured(jobs[0].root if jobs else Path())
    left, finished, seconds, used = 0, 0, 0.0, set()
    memory, disk = [], []
    for job in jobs:
        seen = look(job.path)
        if seen.state == "finished":
            finished += 1
            continue
        rate = _rate(job.config, threads, measured)
        remaining = max(0, job.config.decisions - seen.decisions)
        used.add(rate.source)
        left += remaining
        seconds += _STARTING + (remaining + _evaluations(job.config, remaining)) / rate.value
        cost = _replay(job.config)
        disk.append(cost.bytes_disk)
        memory.append(int(cost.bytes_memory + PROCESS.get(job.config.scale.name, PROCESS["paper"])))
    together = min(workers, max(1, len(memory)))
    return Plan(
        runs=len(jobs),
        finished=finished,
        workers=workers,
        threads=threads,
        decisions=left,
        seconds=seconds / together,
        memory=_largest(memory, together),
        disk=_largest(disk, together if discard_replay else len(disk)),
        sources=tuple(sorted(used)),
    )


def _largest(amounts: list[int], count: int) -> int:
    return sum(sorted(amounts, reverse=True)[:count])


def _replay(config: TrainConfig) -> Forecast:
    capacity, margin = replay_plan(config)
    return forecast(capacity, (3, config.env.size, config.env.size), ACTIONS, margin)


def _evaluations(config: TrainConfig, decisions: int) -> float:
    """All evaluations of so many decisions, in decisions of training."""
    repeat = config.env.action_repeat or 4
    length = (config.env.time_limit or EPISODE_FRAMES) / repeat
    share = EVALUATION_COST.get(config.scale.name, EVALUATION_COST["paper"])
    return (decisions / config.evaluate_every + 1) * config.evaluate_episodes * length * share


def _rate(config: TrainConfig, threads: int, measured: dict[tuple[str, str, int], list[float]]) -> Rate:
    key = (config.scale.name, config.method.schedule)
    own = measured.get((*key, threads))
    if own:
        return Rate(statistics.median(own), f"{' '.join(key)}: {len(own)} runs in the same directory")
    if key not in RATES:
        return Rate(OTHER_RATE, f"{' '.join(key)}: a guess of {OTHER_RATE:g} decisions/s")
    # Threads share the work of one update: half the threads, half the rate, is what is assumed.
    source = f"{' '.join(key)}: {RATES[key]:g} decisions/s on {RATE_CORES} cores, as `pamd bench pipeline` measured"
    return Rate(RATES[key] * threads / RATE_CORES, source)


def _measured(root: Path) -> dict[tuple[str, str, int], list[float]]:
    """Decisions a second of the runs below `root`, by scale, schedule and threads."""
    found: dict[tuple[str, str, int], list[float]] = {}
    for run in _runs(root):
        row = newest_row(run / "timing.jsonl")
        try:
            config = json.loads((run / "config.json").read_text())
            key = (config["scale"]["name"], config["method"]["schedule"], config["runtime"]["threads"])
            learned = row["decisions"] - config["method"]["sac"]["random_decisions"]
            rate = float(row["decisions"]) / float(row["seconds"])
        except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
            continue
        if learned > row["decisions"] / 2:  # mostly random decisions, without updates, are no measure
            found.setdefault(key, []).append(rate)
    return found


def _runs(root: Path) -> Iterable[Path]:
    return (file.parent for file in root.glob("*/config.json"))
