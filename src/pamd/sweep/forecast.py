"""Forecast the time, memory and disk space of a sweep."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pamd.envs import observes_states
from pamd.errors import PamdError
from pamd.replay import Forecast, available_memory, forecast
from pamd.replay.layout import StorageName
from pamd.runs import read_progress
from pamd.runs.directory import read_config_tree
from pamd.runs.logs import newest_row
from pamd.sweep.job import Job
from pamd.table import counted
from pamd.training import TrainConfig
from pamd.training.session import replay_plan

RATES = {
    ("paper", "sequential"): 0.72,
    ("paper", "joint"): 1.30,
    ("cpu", "sequential"): 11.1,
    ("cpu", "joint"): 13.8,
}
"""Decisions per second on two cores by (scale, schedule), measured by benchmarks/pipeline.py with cheetah_run and
simsr+pamd (results/bench/pipeline.json). They are used for all tasks and methods and exclude evaluations."""
_RATE_CORES = 2
_OTHER_RATE = 40.0
"""The rate of scales that the benchmark does not measure. The order of magnitude is right for `smoke`."""
_EVALUATION_COST = {"paper": 0.03, "cpu": 0.08, "smoke": 0.3}
"""The time of a decision in evaluation relative to training, which includes the update (same benchmark)."""
ACTIONS = 38
"""The largest action dimension of the suite. This upper bound adds only a few bytes per frame."""
_STATE_SIZE = 256
"""An upper bound on the size of a state with noise."""
PROCESS = {"paper": 1.2e9, "cpu": 0.7e9, "smoke": 0.7e9}
"""Peak memory of a run without its replay, in bytes: libraries, networks, and one update of simsr+pamd on a CPU."""
_EPISODE_FRAMES = 1000
_STARTING = 6.0
"""Startup time of a process in seconds: importing libraries and building the environment."""


class _Rate(NamedTuple):
    """Decisions per second of one run, and the source of the number."""

    value: float
    source: str


@dataclass(frozen=True)
class Plan:
    """The forecast of a sweep."""

    runs: int
    finished: int
    workers: int
    threads: int
    decisions: int
    """The number of remaining decisions."""
    seconds: float
    memory: int
    """Memory in bytes of the largest runs that may be active at the same time."""
    disk: int
    """Bytes of all replays of unfinished runs, or of the largest concurrent ones if finished replays are discarded."""
    sources: tuple[str, ...]


def plan(jobs: Sequence[Job], workers: int, threads: int, discard_replay: bool = False) -> Plan:
    """Forecast a sweep from its jobs and the existing run directories. Nothing is started."""
    measured = _measured_rates(jobs[0].runs if jobs else Path())
    left, finished, seconds, used = 0, 0, 0.0, set()
    memory, disk = [], []
    for job in jobs:
        seen = read_progress(job.path)
        if seen.finished(job.config.decisions):
            finished += 1
            continue
        rate = _rate(job.config, threads, measured)
        remaining = max(0, job.config.decisions - seen.decisions)
        used.add(rate.source)
        left += remaining
        seconds += _STARTING + (remaining + _evaluations(job.config, remaining)) / rate.value
        process = int(PROCESS.get(job.config.scale, PROCESS["paper"]))
        cost = _replay(job.config)
        if job.config.replay.storage == "auto" and cost.bytes_memory + process > (
            job.config.runtime.memory or available_memory()
        ):
            cost = _replay(job.config, "mmap")
        disk.append(cost.bytes_disk)
        memory.append(cost.bytes_memory + process)
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


def _replay(config: TrainConfig, storage: StorageName | None = None) -> Forecast:
    capacity, margin = replay_plan(config, storage)
    if observes_states(config.env.task):
        return forecast(capacity, (_STATE_SIZE,), ACTIONS, margin, "float32")
    return forecast(capacity, (3, config.env.size, config.env.size), ACTIONS, margin)


def _evaluations(config: TrainConfig, decisions: int) -> float:
    """Return the cost of all evaluations during `decisions` decisions, in units of training decisions."""
    repeat = config.env.action_repeat or 4
    length = (config.env.limit(_EPISODE_FRAMES) or _EPISODE_FRAMES) / repeat
    share = _EVALUATION_COST.get(config.scale, _EVALUATION_COST["paper"])
    between = config.evaluate_every * (length if config.evaluate_unit == "episodes" else 1)
    return (decisions / between + 1) * config.evaluate_episodes * length * share


def _rate(config: TrainConfig, threads: int, measured: dict[tuple[str, str, int | None], list[float]]) -> _Rate:
    key = (config.scale, config.schedule)
    same = measured.get((*key, threads))
    if same:
        return _Rate(statistics.median(same), f"{' '.join(key)}: {counted(len(same), 'run')} in the same directory")
    if key not in RATES:
        return _Rate(_OTHER_RATE, f"{' '.join(key)}: a guess of {_OTHER_RATE:g} decisions/s")
    # The rate is assumed to be proportional to the number of threads.
    source = f"{' '.join(key)}: {RATES[key]:g} decisions/s on {_RATE_CORES} cores; `pamd bench` measures this machine"
    return _Rate(RATES[key] * threads / _RATE_CORES, source)


def _measured_rates(runs: Path) -> dict[tuple[str, str, int | None], list[float]]:
    """Return the measured decisions per second of the runs in `runs`, by scale, schedule and threads."""
    rates: dict[tuple[str, str, int | None], list[float]] = {}
    for file in runs.glob("*/config.json"):
        row = newest_row(file.parent / "timing.jsonl")
        try:
            tree = read_config_tree(file)
            key = (tree["scale"], tree["schedule"], tree["runtime"]["threads"])
            random_decisions = float(tree["learner"]["options"]["random_decisions"])
            decisions, seconds = float(row["decisions"]), float(row["seconds"])
        except (PamdError, KeyError, TypeError, ValueError):
            continue
        # Random decisions make no updates, so a run that mostly made random decisions is not representative.
        if seconds > 0 and decisions > 2 * random_decisions:
            rates.setdefault(key, []).append(decisions / seconds)
    return rates
