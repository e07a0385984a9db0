"""Training time to a target return, from pixels and on states, next to SAC of Stable-Baselines3 and in plain PyTorch.

The plan comes first, then the logs of a run, the race that trains the runs, and the table. Rerun the same command to
continue. Times are those of evaluations and are not interpolated. The setting `cpu-0.2` is the scale of version 0.2.0.
"""

from __future__ import annotations

import math
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks.common import Options
from benchmarks.rivals import RIVALS, Point, load_points, rivals_of
from pamd.configuration import configure
from pamd.errors import RunError, UnknownNameError
from pamd.methods import DEFAULT_METHOD
from pamd.report.statistics import Mean
from pamd.runs.logs import read_evaluations, read_timing
from pamd.sweep import Backend, Job, Resources, Sweep, Tracked, jobs
from pamd.sweep.backends.local import Local
from pamd.sweep.job import Outcome as Ending
from pamd.table import NONE, Table
from pamd.training import Runtime, TrainConfig
from pamd.training.process import cores

__all__ = [
    "METHODS",
    "SEEDS",
    "SETTINGS",
    "TASKS",
    "Entry",
    "Outcome",
    "Point",
    "make_config",
    "make_table",
    "measure",
    "outcome",
    "points",
    "read_points",
    "train_all",
]

ON_REQUEST = "trains for hours"


_PIXELS = {"cartpole_swingup": 350.0, "reacher_easy": 400.0, "finger_spin": 400.0, "walker_walk": 400.0}
TASKS: dict[str, float] = {**_PIXELS, **{f"state:{task}": target for task, target in _PIXELS.items()}}
"""The target returns: at least 40% of the best of DrQ-v2, DreamerV3, TD-MPC2 and MR.Q at a million frames."""

METHODS = ("sac", "deepmdp", DEFAULT_METHOD)
SEEDS = (0, 1, 2)

SETTINGS: dict[str, dict[str, Any]] = {
    "cpu-0.2": {
        "scale": "paper",
        "schedule": "joint",
        "render": "fast",
        "settings": ("env.size=48", "encoder.strides=[3,2,1,1]", "learner.batch=64"),
    },
    "cpu": {"scale": "cpu"},
    "state": {"scale": "state"},
}
"""Options of `configure`. "cpu-0.2" is the scale `cpu` of version 0.2.0. The benchmark compares it only on request."""

_BUDGET = 100_000
_COMMON: dict[str, Any] = {
    "decisions": _BUDGET,
    "evaluate_every": 1_000,
    "evaluate_episodes": 5,
    "checkpoint_every": 5_000,
    "log_every": 500,
}
"""Options shared by all settings. Every evaluation must have a timing row."""


def make_config(task: str, setting: str, method: str, seed: int) -> TrainConfig:
    """Return the config of one run with one thread and no video. It ends at the time limit or the target return."""
    runtime = Runtime(device="cpu", threads=1, video="off", tensorboard=False)
    return configure(task, method, seed=seed, runtime=runtime, **_COMMON, **SETTINGS[setting])


def settings_of(task: str, chosen: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the settings of our runs, then the rivals, on a task; only the chosen ones, if any are."""
    ours = ("state",) if task.startswith("state:") else ("cpu", *(name for name in ("cpu-0.2",) if name in chosen))
    every = (*ours, *rivals_of(task))
    return tuple(name for name in every if not chosen or name in chosen)


def check_names(tasks: tuple[str, ...], settings: tuple[str, ...]) -> None:
    """Raise UnknownNameError if a task has no target return or a setting is unknown."""
    for task in tasks:
        if task not in TASKS:
            raise UnknownNameError("task of the benchmark learning", task, TASKS)
    for setting in settings:
        if setting not in (*SETTINGS, *RIVALS):
            raise UnknownNameError("setting of the benchmark learning", setting, (*SETTINGS, *RIVALS))


_NOT_TRAINING = ("evaluation", "checkpoint")
"""Sections of the clock that do not count as training."""

State = Literal["reached", "limit", "budget", "unfinished"]


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
    """Return the evaluations of a run, a directory or FILE.parquet/NAME; empty if it has none yet."""
    return points(read_evaluations(run / "eval.jsonl").rows, read_timing(run / "timing.jsonl").rows)


def points(evaluations: Sequence[Mapping[str, Any]], timing: Sequence[Mapping[str, Any]]) -> list[Point]:
    """Return each evaluation with the training time of all rows of `timing` up to it."""
    curve, clock, cpu, before, row = [], 0.0, 0.0, 0.0, 0
    for evaluation in evaluations:
        while row < len(timing) and timing[row]["decisions"] <= evaluation["decisions"]:
            taken = timing[row]["seconds"] - before
            before = timing[row]["seconds"]
            trained = taken * (1 - sum(timing[row].get(name, 0.0) for name in _NOT_TRAINING))
            clock, cpu, row = clock + trained, cpu + trained * timing[row].get("cpu", 1.0), row + 1
        curve.append(Point(clock, cpu, evaluation["decisions"], evaluation["frames"], evaluation["return_mean"]))
    return curve


def outcome(curve: Sequence[Point], threshold: float, limit: float, budget: int) -> Outcome:
    """Find the first evaluation with at least the return `threshold`, within `limit` seconds and `budget` decisions."""
    if not curve:
        return Outcome("unfinished", Point(0.0, 0.0, 0, 0, 0.0), 0.0)
    within = [point for point in curve if point.seconds <= limit] or [curve[0]]
    first = next((i for i, point in enumerate(within) if point.mean >= threshold), None)
    if first is not None:
        return Outcome("reached", within[first], _area(within[: first + 1], threshold, limit))
    state: State = "unfinished"
    if curve[-1].seconds >= limit:
        state = "limit"
    elif curve[-1].decisions >= budget:
        state = "budget"
    return Outcome(state, within[-1], _area(within, threshold, limit))


def _area(curve: Sequence[Point], threshold: float, limit: float) -> float:
    """Return the mean over [0, limit] of a step function that holds each return until the next evaluation."""
    ends = [*(point.seconds for point in curve[1:]), limit]
    spans = [max(0.0, end - point.seconds) for point, end in zip(curve, ends, strict=True)]
    return sum(span * min(point.mean, threshold) for span, point in zip(spans, curve, strict=True)) / limit


_LOOK_EVERY = 2.0
"""Seconds between two checks of the logs."""


class Race(Backend):
    """Runs local processes. A run whose job is `over` is asked to write a checkpoint and stop."""

    def __init__(self, resources: Resources, over: Callable[[Job], bool]) -> None:
        super().__init__(resources)
        self._local, self._over = Local(resources), over
        self._jobs: dict[str, Job] = {}
        self._looked = 0.0

    @property
    def running(self) -> int:
        return self._local.running

    @property
    def free(self) -> bool:
        return self._local.free

    def start(self, job: Job) -> None:
        self._jobs[job.name] = job
        self._local.start(job)

    def ended(self) -> list[tuple[str, Ending]]:
        if time.monotonic() - self._looked > _LOOK_EVERY:
            self._looked = time.monotonic()
            for name in [name for name, job in self._jobs.items() if self._over(job)]:
                self._jobs.pop(name)
                self._local.ask_one(name)
        ended = self._local.ended()
        for name, _ in ended:
            self._jobs.pop(name, None)
        return ended

    def ask_to_end(self) -> None:
        self._local.ask_to_end()

    def close(self) -> None:
        self._local.close()


class Reports:
    """Writes one line to stderr when a run starts and when it ends."""

    def __init__(self, describe: Callable[[Job], str]) -> None:
        self._describe = describe

    def show(self, runs: Sequence[Tracked]) -> None:
        """Do nothing. Only starts and ends are reported."""

    def changed(self, run: Tracked) -> None:
        self.say(f"{run.job.label}: " + ("started" if run.state == "running" else self._end_of(run)))

    def say(self, message: str) -> None:
        sys.stderr.write(message + "\n")

    def _end_of(self, run: Tracked) -> str:
        # The sweep reports a run that was asked to stop as "interrupted", which is the normal end here.
        return run.error if run.state in ("failed", "waiting") else self._describe(run.job)


def train_all(
    jobs: Sequence[Job], workers: int, over: Callable[[Job], bool], describe: Callable[[Job], str]
) -> list[Tracked]:
    """Train until every job is over. Jobs that are already over are skipped."""
    left = [job for job in jobs if not over(job)]
    resources = Resources(workers=workers, threads=1)
    return Sweep(left, lambda: Race(resources, over), Reports(describe)).run()


class Entry(NamedTuple):
    """One run of the benchmark."""

    task: str
    setting: str
    method: str
    seed: int
    outcome: Outcome


def make_table(entries: Sequence[Entry], thresholds: Mapping[str, float], limit: float) -> Table:
    """Return rows by task, setting and method."""
    rows = []
    for task in dict.fromkeys(entry.task for entry in entries):
        outcomes: dict[tuple[str, str], list[Outcome]] = {}
        for entry in entries:
            if entry.task == task:
                outcomes.setdefault((entry.setting, entry.method), []).append(entry.outcome)
        fastest = min((_median(ends) for (setting, _), ends in outcomes.items() if "SB3" in setting), default=None)
        for key, ends in outcomes.items():
            ratio = NONE if fastest is None else _ratio(fastest, _median(ends), limit)
            rows.append({"task": task, "return": thresholds[task], **_row(*key, ends, limit), "SB3 / this": ratio})
    notes = (
        "minutes: training time of the first evaluation whose mean return is at least the stated one; wall time of"
        " one run with one thread, without evaluations and checkpoints. CPU minutes: processor time of the same span.",
        "Median (minimum to maximum) over seeds, without interpolation. A run that did not reach the return within"
        f" {limit / 60:g} minutes counts as longer than all others: > {limit / 60:g}.",
        f"area: mean return over {limit / 60:g} minutes, clipped at the stated return, where a run stays after reaching"
        " it; ± standard error over seeds.",
        "SB3 / this: median minutes of the faster SAC of Stable-Baselines3 on the task over those of this row.",
    )
    return Table.from_records("learning", "training to a stated return, one thread per run", rows, notes)


def _median(outcomes: Sequence[Outcome]) -> float:
    """Return the median seconds of the runs that have ended; infinity if most did not reach the return."""
    ended = [_time(one, one.point.seconds) for one in outcomes if one.over]
    return statistics.median(ended) if ended else math.inf


def _ratio(theirs: float, ours: float, limit: float) -> str:
    """Return theirs / ours, with a bound if one of them is longer than the limit."""
    bound = {(True, False): "> ", (False, True): "< "}.get((math.isinf(theirs), math.isinf(ours)), "")
    if math.isinf(theirs) and math.isinf(ours):
        return NONE
    return f"{bound}{min(theirs, limit) / min(ours, limit):.1f}"


def _row(setting: str, method: str, outcomes: Sequence[Outcome], limit: float) -> dict[str, Any]:
    ended = [one for one in outcomes if one.over]
    reached = sum(one.state == "reached" for one in ended)
    minutes = [_time(one, one.point.seconds / 60) for one in ended]
    return {
        "setting": setting,
        "method": method,
        "reached": f"{reached} of {len(ended)}" + (f" ({len(outcomes) - len(ended)} unfinished)" * (ended != outcomes)),
        "minutes": _spread(minutes, limit / 60, 1),
        "CPU minutes": _spread([_time(one, one.point.cpu_seconds / 60) for one in ended], None, 1),
        "decisions": _spread([_time(one, one.point.decisions) for one in ended], None, 0),
        "frames": _spread([_time(one, one.point.frames) for one in ended], None, 0),
        "return at the end": str(Mean.over([one.point.mean for one in ended])),
        "area": str(Mean.over([one.area for one in ended])),
        "minutes, each seed": ", ".join(_cell(value, limit / 60, 1) for value in minutes),
    }


def _time(one: Outcome, value: float) -> float:
    """Return `value` if the run reached the target return; otherwise infinity."""
    return value if one.state == "reached" else math.inf


def _spread(values: Sequence[float], limit: float | None, digits: int) -> str:
    if not any(map(math.isfinite, values)):
        return _cell(math.inf, limit if values else None, digits)
    middle, low, high = (_cell(of(values), limit, digits) for of in (statistics.median, min, max))
    return f"{middle} ({low} to {high})"


def _cell(value: float, limit: float | None, digits: int) -> str:
    if math.isfinite(value):
        return f"{value:.{digits}f}"
    return NONE if limit is None else f"> {limit:g}"


def measure(options: Options) -> Table:
    """Return the table of all runs. With `options.train`, train the unfinished runs first, seed by seed."""
    tasks, seeds = options.tasks or tuple(TASKS), options.seeds or SEEDS
    check_names(tasks, options.settings)
    methods, limit = options.methods or METHODS, 60 * options.limit_minutes
    arms = [
        (task, setting, method)
        for task in tasks
        for setting in settings_of(task, options.settings)
        for method in (methods if setting in SETTINGS else ("sac",))
    ]
    made = {
        (*arm, seed): jobs([(" ".join((*arm, str(seed))), make_config(*arm, seed))], options.runs)[0]
        for seed in seeds
        for arm in arms
        if arm[1] in SETTINGS
    }
    log = options.runs / "rivals.jsonl" if options.train or options.runs.is_dir() else _beside(options.runs)

    def ending(task: str, setting: str, method: str, seed: int) -> Outcome:
        if setting in RIVALS:
            return outcome(load_points(log).get((task, setting, seed), []), TASKS[task], limit, _BUDGET)
        return outcome(read_points(made[task, setting, method, seed].path), TASKS[task], limit, _BUDGET)

    for seed in seeds if options.train else ():
        _train([job for (*_, of), job in made.items() if of == seed], lambda job: ending(*_key(made, job)))
        rivals = [(task, setting) for task, setting, method in arms if setting in RIVALS]
        _train_rivals([one for one in rivals if not ending(*one, "sac", seed).over], seed, log, limit)
    entries = [Entry(*arm, seed, ending(*arm, seed)) for arm in arms for seed in seeds]
    return make_table(entries, TASKS, limit)


def _beside(runs: Path) -> Path:
    """Return the log of the rivals that is published with a Parquet file of runs."""
    return runs.with_name("rivals.jsonl")


def _key(made: Mapping[tuple[str, str, str, int], Job], job: Job) -> tuple[str, str, str, int]:
    return next(key for key, one in made.items() if one.name == job.name)


def _train(unique: Sequence[Job], ending: Callable[[Job], Outcome]) -> None:
    """Train the unfinished runs, and delete the replay of each run that reached its return."""
    ended = train_all(unique, cores(), lambda job: ending(job).over, lambda job: _sentence(ending(job)))
    if failed := [run for run in ended if run.state == "failed"]:
        raise RunError(f"learning: {failed[0].job.path} failed: {failed[0].error}")
    for job in unique:
        if ending(job).state == "reached":  # The replay takes most of the disk space, and only training reads it.
            shutil.rmtree(job.path / "replay", ignore_errors=True)


def _train_rivals(left: Sequence[tuple[str, str]], seed: int, log: Path, limit: float) -> None:
    """Train other people's agents, each in its own process with one thread, as many at once as ours."""
    log.parent.mkdir(parents=True, exist_ok=True)

    def run(task: str, name: str) -> None:
        sys.stderr.write(f"{task} {name} {seed}: started\n")
        words = [task, name, str(seed), str(log), "--target", str(TASKS[task]), "--limit", str(limit)]
        subprocess.run([sys.executable, "-m", "benchmarks.rivals", *words], check=True)
        ended = outcome(load_points(log)[task, name, seed], TASKS[task], limit, _BUDGET)
        sys.stderr.write(f"{task} {name} {seed}: {_sentence(ended)}\n")

    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(lambda one: run(*one), left))


def _sentence(ended: Outcome) -> str:
    point = ended.point
    done = f"return {point.mean:.0f} after {point.seconds / 60:.1f} minutes and {point.decisions} decisions"
    return f"{ended.state}, {done}"
