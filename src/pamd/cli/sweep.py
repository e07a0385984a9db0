"""`pamd sweep`: tasks x methods x seeds. `pamd reproduce` also uses its planning, execution and summary."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rich.console import Console
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text

from pamd.atomic_io import check_directory
from pamd.cli.console import error_console, print_text
from pamd.cli.parser import Metavar, Without
from pamd.cli.train import RUN_GROUPS, Settings
from pamd.configuration import RunOptions, configure
from pamd.envs import EnvConfig, choose_egl_device
from pamd.envs.task import make_task
from pamd.errors import ConfigError, ResourceError
from pamd.replay import available_disk, available_memory
from pamd.runs import Progress, read_progress
from pamd.sweep import BACKENDS, Job, Plan, Resources, Sweep, Tracked, jobs, plan
from pamd.table import Table, counted
from pamd.training import Runtime
from pamd.training.session import device_of

if TYPE_CHECKING:
    from pamd.training import TrainConfig

_REFRESH, _LINES = 1.0, 60.0
_ROWS = 40
"""The maximum number of rows in the live table. Further runs are only counted."""
_ORDER = ("running", "failed", "interrupted", "waiting", "finished")
_COLORS = {"running": "cyan", "failed": "red", "interrupted": "yellow", "finished": "green"}


@dataclass(frozen=True)
class Execution:
    """Where and how runs are executed. These options do not affect results."""

    backend: str = "local"
    """where runs are executed: local, ray or slurm"""
    resources: Resources = Resources()  # noqa: RUF009
    retries: int = 2
    """number of retries of a run, from its last checkpoint, after its process or node died"""
    device: str = "auto"
    """cpu, cuda, or auto: CUDA if it is available"""
    video: Literal["off", "last", "all"] = "off"
    """which evaluations are recorded as videos"""
    egl_device: int | None = None
    """number of the EGL device that renders; see `pamd doctor` (default: MuJoCo's choice)"""
    discard_replay: bool = False
    """delete the replay of each finished run; replays take most of the disk space and reports do not read them"""


GROUPS = {
    "sweep": {
        "runs": ("tasks", "methods", "seeds", "vary", "scale", "decisions", "runs", "label", "set_", "plan"),
        **RUN_GROUPS,
    }
}


def sweep(
    tasks: tuple[str, ...],
    methods: tuple[str, ...],
    seeds: tuple[int, ...] = (0,),
    options: Annotated[RunOptions, Without(("method", "seed"))] = RunOptions(),  # noqa: B008
    vary: Annotated[tuple[str, ...], Metavar("KEY=A,B,C")] = (),
    set_: Settings = (),
    runs: Path = Path("runs"),
    label: str | None = None,
    plan: bool = False,
    execution: Execution = Execution(),  # noqa: B008
) -> int:
    """Train every method on every task with every seed. After an interruption, rerun the same command to continue.

    Args:
        tasks: tasks; see `pamd list tasks`
        methods: methods; see `pamd list methods`
        seeds: one run per seed
        vary: values of a field of the configs, e.g. method.latent_dim=20,50,100; several give all combinations
        set_: any field of the configs, e.g. method.metric.pairing=all
        runs: parent directory of the runs; ray and slurm require storage that all machines share
        label: name of new runs in tables and reports (default: the method and the parts of it that --set changed)
        plan: only print the runs and a forecast of time, memory and disk
    """
    if not (tasks and methods and seeds):
        raise ConfigError("sweep: --tasks, --methods and --seeds must each have at least one value")
    choose_egl_device(execution.egl_device)
    labeled = []
    for seed, task, method, variant in itertools.product(seeds, tasks, methods, _combinations(vary)):
        name = None if label is None else label if len(methods) == 1 else f"{label} {method}"
        settings, runtime = (*set_, *variant), Runtime(label=name)
        made = configure(task, method, seed=seed, settings=settings, runtime=runtime, **options.given)
        labeled.append((f"{made.label} ({', '.join(variant)})" if variant else made.label, made))
    for task in tasks:
        # Only the simulator knows all task names. A misspelled name must fail before the first run starts.
        make_task(EnvConfig(task)).close()
    planned, forecast = plan_jobs(labeled, runs, execution)
    print_plan(planned, forecast)
    if plan:
        return 0
    return print_summary(run_jobs(planned, execution, forecast))


def _combinations(vary: Sequence[str]) -> list[tuple[str, ...]]:
    """Return all combinations of the values in "KEY=A,B,C", as settings KEY=A. Commas in JSON do not separate."""
    choices = []
    for words in vary:
        key, equals, text = words.partition("=")
        values = re.findall(r"(?:\[[^\]]*\]|\{[^}]*\}|\"[^\"]*\"|[^,])+", text)
        if not equals or not key or "" in text.split(","):
            raise ConfigError(f"--vary takes KEY=A,B,C, got {words!r}")
        choices.append([f"{key}={value}" for value in values])
    return list(itertools.product(*choices))


def plan_jobs(labeled: Sequence[tuple[str, TrainConfig]], runs: Path, execution: Execution) -> tuple[list[Job], Plan]:
    """Return the jobs, each with its share of the threads, and a forecast of time, memory and disk."""
    backend, resources = BACKENDS.get(execution.backend), execution.resources
    if execution.retries < 0:
        raise ConfigError(f"sweep: retries must be at least 0, got {execution.retries}")
    if resources.address is not None and execution.backend != "ray":
        raise ConfigError(f"--address requires --backend ray, got --backend {execution.backend}")
    if resources.partition is not None and execution.backend != "slurm":
        raise ConfigError(f"--partition requires --backend slurm, got --backend {execution.backend}")
    check_directory(runs, "--runs")
    if execution.backend == "local":
        device_of(execution.device)  # Report an unusable device once, not once per run.
    planned = jobs(labeled, runs)
    workers, threads = backend.concurrent(resources, len(planned)), resources.threads
    # Runs on this machine share its memory. On a cluster, each run looks at its own machine.
    memory = available_memory() // workers if execution.backend == "local" else None
    runtime = Runtime(device=execution.device, threads=threads, memory=memory, video=execution.video, tensorboard=False)
    planned = [
        replace(job, config=replace(job.config, runtime=replace(runtime, label=job.config.runtime.label)))
        for job in planned
    ]
    return planned, plan(planned, workers, threads, execution.discard_replay)


def print_plan(planned: Sequence[Job], forecast: Plan) -> None:
    """Print the runs by task and method, and the forecast."""
    runs = planned[0].runs
    memory, disk = available_memory(), available_disk(runs)
    lines = [
        _plan_table(planned).text(),
        f"{counted(forecast.runs, 'run')}, {forecast.finished} of them finished; {forecast.decisions:,} decisions are"
        f" left (one update each); {forecast.workers} at a time, {counted(forecast.threads, 'CPU thread')} each",
        f"forecast: {duration(forecast.seconds)}; memory {_gigabytes(forecast.memory)} GB of {_gigabytes(memory)} here;"
        f" disk for replays {_gigabytes(forecast.disk)} GB of {_gigabytes(disk)} in {runs}",
    ]
    if forecast.memory > memory:
        lines.append("  more memory than available: use fewer --workers, or --storage mmap")
    if forecast.disk > disk:
        lines.append("  more disk than available: use --discard-replay, or another --runs")
    lines += [f"  time from {source}" for source in forecast.sources]
    print_text("\n".join(lines))


def run_jobs(planned: Sequence[Job], execution: Execution, forecast: Plan) -> list[Tracked]:
    """Execute the jobs and show their progress."""
    if execution.backend == "local":
        _check_memory(forecast)
    with Board() as board:
        driver = Sweep(
            planned,
            lambda: BACKENDS.get(execution.backend)(execution.resources),
            board,
            retries=execution.retries,
            discard_replay=execution.discard_replay,
        )
        return driver.run()


def print_summary(runs: Sequence[Tracked]) -> int:
    """Print the number of finished runs and the errors of the others, and return the exit code."""
    unfinished = [run for run in runs if run.state != "finished"]
    before, done = sum(run.skipped for run in runs), len(runs) - len(unfinished)
    print_text(f"{done} of {len(runs)} runs finished ({before} before this command)")
    for run in unfinished:
        print_text(f"{run.state}: {run.job.path}: {run.error}")
    return 1 if unfinished else 0


def _check_memory(forecast: Plan) -> None:
    """Check the memory of all concurrent runs. Each run checks only its own memory when it starts."""
    memory = available_memory()
    if forecast.memory > memory:
        raise ResourceError(
            f"{forecast.workers} runs at a time require {_gigabytes(forecast.memory)} GB of memory, but"
            f" {_gigabytes(memory)} GB are available: use fewer --workers, or --storage mmap"
        )


def _plan_table(planned: Sequence[Job]) -> Table:
    groups = Counter((job.config.env.task, job.label, job.config.decisions, _frames(job)) for job in planned)
    rows = [(task, label, seeds, decisions, frames) for (task, label, decisions, frames), seeds in groups.items()]
    return Table("plan", "Planned runs", ["task", "method", "seeds", "decisions", "frames"], rows)


def _frames(job: Job) -> int:
    return job.config.decisions * (job.config.env.action_repeat or 1)


def _gigabytes(amount: int) -> str:
    return f"{amount / 1e9:.1f}"


# -- The live table ---------------------------------------------------------------------------------------------------


class Board:
    """Displays the progress of a sweep. It reads the run directories, so it works the same for every backend."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or error_console()
        self._live: Live | None = None
        self._shown = 0.0
        self._began: dict[str, tuple[float, int]] = {}
        """The first observed (time, decisions) of each run, and of all runs together."""
        self._known: dict[tuple[str, str], Progress] = {}
        """The states of runs that are not running. Their files are read only once."""

    def __enter__(self) -> Board:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, message: str) -> None:
        self._console.print(message, highlight=False, soft_wrap=True, markup=False)

    def changed(self, run: Tracked) -> None:
        self._shown = 0.0
        if run.skipped:
            return
        name, again = _name(run), f", attempt {run.attempts}" if run.attempts > 1 else ""
        if run.state == "waiting":
            self.say(f"{name}: {run.error}; retrying from its last checkpoint")
        elif run.state == "running":
            self.say(f"{name}: started{again}")
        else:
            last = read_progress(run.job.path).last_return
            result = f", return {last:.1f}" if last is not None and run.state == "finished" else ""
            self.say(f"{name}: {run.state}{result}" + (f": {run.error}" if run.error else ""))

    def show(self, runs: Sequence[Tracked]) -> None:
        now = time.monotonic()
        if now - self._shown < (_REFRESH if self._live else _LINES):
            return
        first, self._shown = self._shown == 0.0, now
        if self._live is not None:
            self._live.update(self._table(runs, now), refresh=True)
        elif not first:
            for run in runs:
                if run.state == "running":
                    self.say("  ".join([_name(run), *self._progress(run, now)]))
            self.say(self._counts(runs, now))

    def _table(self, runs: Sequence[Tracked], now: float) -> RichTable:
        shown = sorted(runs, key=lambda run: _ORDER.index(run.state))[:_ROWS]
        table = RichTable("run", "state", "decisions", "return", "time left", caption=self._counts(runs, now), box=None)
        for run in shown:
            done, last, left = self._progress(run, now)
            again = f" ({run.attempts})" if run.attempts > 1 else ""
            state = Text(f"{run.state}{again}", _COLORS.get(run.state, ""))
            table.add_row(_name(run), state, done, last, left)
        return table

    def _progress(self, run: Tracked, now: float) -> tuple[str, str, str]:
        seen, total = self._read(run), run.job.config.decisions
        left = ""
        if run.state == "running" and seen.decisions:
            left = self._left(f"{run.job.name}/{run.attempts}", now, seen.decisions, total)
        last = "" if seen.last_return is None else f"{seen.last_return:.1f}"
        return f"{seen.decisions:,}/{total:,}", last, left

    def _left(self, what: str, now: float, done: int, total: int) -> str:
        """Estimate the remaining time from the rate since `what` was first seen; "" if there is no rate yet."""
        began, first = self._began.setdefault(what, (now, done))
        return duration((total - done) * (now - began) / (done - first)) if done > first else ""

    def _counts(self, runs: Sequence[Tracked], now: float) -> str:
        counts: Counter[str] = Counter(run.state for run in runs)
        text = ", ".join(f"{counts[state]} {state}" for state in _ORDER if counts[state])
        open_ = [run for run in runs if run.state in ("running", "waiting", "finished")]
        left = self._left(
            "all", now, sum(self._read(run).decisions for run in open_), sum(run.job.config.decisions for run in open_)
        )
        return f"{text}; {left} left in total" if left else text

    def _read(self, run: Tracked) -> Progress:
        if run.state == "running":
            return read_progress(run.job.path)
        key = (run.job.name, run.state)
        if key not in self._known:
            self._known[key] = read_progress(run.job.path)
        return self._known[key]


def _name(run: Tracked) -> str:
    return f"{run.job.config.env.task} {run.job.label} s{run.job.config.seed}"


def duration(seconds: float) -> str:
    """Format seconds as rounded seconds, minutes, hours or days."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 5 * 86400 else f"{seconds / 86400:,.0f} days"
