"""`pamd sweep`: tasks x methods x seeds; and what it shares with `pamd reproduce`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from pamd.cli.board import Board, duration
from pamd.cli.console import wide_console
from pamd.cli.train import Settings, Storage
from pamd.configuration import configure
from pamd.durable import check_directory
from pamd.envs import EnvConfig
from pamd.envs.task import make_task
from pamd.errors import ConfigError, ResourceError
from pamd.replay import available_disk, available_memory
from pamd.report.table import counted
from pamd.sweep import BACKENDS, Job, Plan, Resources, Sweep, Tracked, jobs, plan
from pamd.training import Runtime
from pamd.training.session import device_of

if TYPE_CHECKING:
    from pamd.training import TrainConfig

__all__ = ["How", "carry_out", "prepared", "show_plan", "summarise", "sweep"]


@dataclass(frozen=True)
class How:
    """Where and how runs are carried out."""

    backend: str = "local"
    """local, ray or slurm."""
    resources: Annotated[Resources, tyro.conf.arg(name="")] = Resources()  # noqa: RUF009
    retries: int = 2
    """How often a run whose process or node died is tried again, from its last checkpoint."""
    device: str = "auto"
    """auto takes CUDA where it is there."""
    video: Literal["off", "last", "all"] = "off"
    """Which evaluations are filmed."""
    discard_replay: bool = False
    """Delete the replay of a finished run: most of its disk, and nothing that reports read."""


Flat = Annotated[How, tyro.conf.arg(name="")]


def sweep(
    tasks: tuple[str, ...],
    methods: tuple[str, ...],
    seeds: tuple[int, ...] = (0,),
    scale: str = "paper",
    fidelity: Literal["paper", "released"] = "paper",
    decisions: int | None = None,
    schedule: Literal["sequential", "joint"] | None = None,
    evaluate_every: int | None = None,
    evaluate_episodes: int | None = None,
    storage: Storage | None = None,
    set_: Settings = (),
    root: Path = Path("runs"),
    plan: bool = False,
    how: Flat = How(),  # noqa: B008
) -> int:
    """Train every method on every task with every seed; the same command goes on after an interruption.

    Args:
        tasks: DMControl tasks, gym:ID or toy.
        methods: see `pamd list methods`.
        scale: paper, cpu or smoke.
        decisions: budget of each run.
        storage: of the replays; mmap needs disk instead of memory.
        set_: any field of the configs, e.g. method.objective.pairing=all
        root: where run directories are made; ray and slurm need storage that all machines share.
        plan: only print runs, forecast time, memory and disk.
    """
    if not (tasks and methods and seeds):
        raise ConfigError("sweep: --tasks, --methods and --seeds must each name at least one")
    for task in tasks:
        # A misspelt name is said before the first run, not by it.
        make_task(EnvConfig(task)).close()
    given: dict[str, Any] = {
        "decisions": decisions,
        "schedule": schedule,
        "evaluate_every": evaluate_every,
        "evaluate_episodes": evaluate_episodes,
        "storage": storage,
    }
    runs = [
        (method, configure(task, method, scale=scale, fidelity=fidelity, seed=seed, settings=set_, **given))
        for seed in seeds
        for task in tasks
        for method in methods
    ]
    made, forecast = prepared(runs, root, how)
    show_plan(made, forecast)
    if plan:
        return 0
    return summarise(carry_out(made, how, forecast))


def prepared(runs: Sequence[tuple[str, TrainConfig]], root: Path, how: How) -> tuple[list[Job], Plan]:
    """The jobs, each with its share of the threads, and what they will take."""
    backend, resources = BACKENDS.get(how.backend), how.resources
    if how.retries < 0:
        raise ConfigError(f"sweep: retries must be at least 0, got {how.retries}")
    if resources.address is not None and how.backend != "ray":
        raise ConfigError(f"--address is of a Ray cluster: it goes with --backend ray, not {how.backend}")
    if resources.partition is not None and how.backend != "slurm":
        raise ConfigError(f"--partition is of Slurm: it goes with --backend slurm, not {how.backend}")
    check_directory(root, "--root")
    if how.backend == "local":
        device_of(how.device)  # what no run could use is said once, before the first
    made = jobs(runs, root)
    workers, threads = backend.share(resources, len(made))
    runtime = Runtime(device=how.device, threads=threads, video=how.video, tensorboard=False)
    made = [replace(job, config=replace(job.config, runtime=runtime)) for job in made]
    return made, plan(made, workers, threads, how.discard_replay)


def show_plan(made: Sequence[Job], forecast: Plan) -> None:
    """Runs by task and method, and the forecast."""
    console = wide_console(stderr=True)
    table = Table("task", "method", "seeds", "decisions", "frames", box=None)
    groups = Counter((job.config.env.task, job.label, _budget(job), _frames(job)) for job in made)
    for (task, label, budget, frames), seeds in groups.items():
        table.add_row(task, label, str(seeds), budget, frames)
    console.print(table)
    workers = f"{forecast.workers} at a time, {counted(forecast.threads, 'CPU thread')} each"
    console.print(
        f"{counted(forecast.runs, 'run')}, {forecast.finished} of them finished;"
        f" {forecast.decisions:,} decisions are left (one update each); {workers}",
        soft_wrap=True,
    )
    memory, disk = available_memory(), available_disk(made[0].root)
    console.print(
        f"forecast: {duration(forecast.seconds)}; memory {_gigabytes(forecast.memory)} GB of {_gigabytes(memory)} here;"
        f" disk for replays {_gigabytes(forecast.disk)} GB of {_gigabytes(disk)} in {made[0].root}",
        soft_wrap=True,
    )
    if forecast.memory > memory:
        console.print("  more memory than there is: fewer --workers, or --storage mmap", soft_wrap=True)
    if forecast.disk > disk:
        console.print("  more disk than there is: --discard-replay, or another --root", soft_wrap=True)
    for source in forecast.sources:
        console.print(f"  time from {source}", soft_wrap=True)


def carry_out(made: Sequence[Job], how: How, forecast: Plan) -> list[Tracked]:
    """The sweep itself, watched."""
    if how.backend == "local":
        _check(forecast)
    with Board() as board:
        driver = Sweep(
            made,
            lambda: BACKENDS.get(how.backend)(how.resources),
            board,
            retries=how.retries,
            discard_replay=how.discard_replay,
        )
        return driver.run()


def _check(forecast: Plan) -> None:
    """Each run looks after itself when it begins, but only together may they be too much."""
    memory = available_memory()
    if forecast.memory > memory:
        raise ResourceError(
            f"{forecast.workers} runs at a time will need {_gigabytes(forecast.memory)} GB of memory, and"
            f" {_gigabytes(memory)} GB are available: lower --workers, or use --storage mmap"
        )


def summarise(runs: Sequence[Tracked]) -> int:
    """What failed, with its error; the exit code."""
    console = Console(stderr=True, highlight=False)
    lost = [run for run in runs if run.state != "finished"]
    before = sum(run.skipped for run in runs)
    console.print(f"{len(runs) - len(lost)} of {len(runs)} runs finished ({before} were already)", soft_wrap=True)
    for run in lost:
        console.print(f"{run.state}: {run.job.path}: {run.error}", soft_wrap=True, markup=False)
    return 1 if lost else 0


def _gigabytes(amount: int) -> str:
    return f"{amount / 1e9:.1f}"


def _budget(job: Job) -> str:
    return f"{job.config.decisions:,}"


def _frames(job: Job) -> str:
    from pamd.envs import resolve_env

    return f"{job.config.decisions * (resolve_env(job.config.env).action_repeat or 1):,}"
