"""`pamd reproduce NAME`: a table or figure of the paper, from its runs to its artefact."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table as Grid

from pamd.cli.artefact import write_artefact
from pamd.cli.console import wide_console
from pamd.cli.sweep import Flat, How, carry_out, prepared, show_plan, summarise
from pamd.cli.train import Storage
from pamd.durable import check_directory
from pamd.errors import ConfigError, RunError, UnknownNameError
from pamd.experiments import EXPERIMENTS, SCALES, Experiment
from pamd.report.diagnosed import draw
from pamd.sweep.state import look

if TYPE_CHECKING:
    from pamd.benchmarks.measure import Options, Table

__all__ = ["reproduce"]


def reproduce(
    name: Annotated[str, tyro.conf.Positional],
    /,
    scale: str = "cpu",
    fidelity: Literal["paper", "released"] = "paper",
    seeds: tuple[int, ...] = (),
    tasks: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    decisions: int | None = None,
    storage: Storage | None = None,
    root: Path = Path("runs"),
    out: Path | None = None,
    plan: bool = False,
    artefact_only: bool = False,
    how: Flat = How(),  # noqa: B008
) -> int:
    """Carry out an experiment and make its artefact; the same command goes on after an interruption.

    Args:
        name: see `pamd list experiments`.
        scale: paper, cpu (hours on two cores) or smoke (shows that it runs, and nothing else).
        fidelity: follow the paper's text or the released code where they differ.
        seeds: which; default 0, 1, ... as many as the scale has.
        tasks: only these of its tasks.
        methods: only these of its methods.
        decisions: budget of every run instead of the scale's.
        storage: of the replays; mmap needs disk instead of memory.
        root: where run directories are made; experiments that share a run share its directory.
        out: where the artefact goes; default ROOT/artefacts/NAME-SCALE.
        plan: only print runs, forecast time, memory and disk.
        artefact_only: train nothing; make the artefact from the run directories that are there.
    """
    experiment = EXPERIMENTS.get(name)
    if scale not in SCALES:
        raise UnknownNameError("scale of experiments", scale, SCALES)
    given = {"tasks": tasks, "methods": methods, "seeds": seeds, "decisions": decisions, "storage": storage}
    _check(experiment, name, plan and artefact_only, how.discard_replay, [key for key, value in given.items() if value])
    console = wide_console(stderr=True)
    console.print(f"{experiment.title}. It shows {experiment.shows}.", soft_wrap=True)
    if experiment.arms and decisions is None and not seeds:
        console.print(f"scale {scale}: {SCALES[scale].what}", soft_wrap=True)
    place = out or root / "artefacts" / f"{name}-{scale}"
    check_directory(place, "the artefact's place")
    if not experiment.arms:
        return _tabulate(experiment, scale, place, plan, artefact_only, how.resources.threads)
    runs = experiment.runs(scale, fidelity, seeds, tasks, methods, decisions=decisions, storage=storage)
    made, forecast = prepared(runs, root, how)
    if not artefact_only:
        show_plan(made, forecast)
    if plan:
        return 0
    code = 0 if artefact_only else summarise(carry_out(made, how, forecast))
    found = [(job.label, job.path) for job in made if look(job.path).last_return is not None]
    if not found:
        raise RunError(f"no run of {name} at scale {scale} has been evaluated in {root}: there is nothing to report")
    if experiment.after is not None and not artefact_only and code == 0:
        draw(experiment.after(scale, found))
    _write(experiment, scale, fidelity, found, len(made), place, console)
    return code


def _check(experiment: Experiment, name: str, neither: bool, discard_replay: bool, given: Sequence[str]) -> None:
    """Raise where options contradict each other or the experiment; `given`: those about runs."""
    if neither:
        raise ConfigError("reproduce: --plan starts nothing and --artefact-only trains nothing: one of them")
    if experiment.needs_replay and discard_replay:
        raise ConfigError(f"reproduce: {name} reads the replay of a finished run; leave --discard-replay out")
    if given and not experiment.arms:
        raise ConfigError(f"reproduce: {name} is computed, it has no {', '.join(f'--{key}' for key in given)}")


def _write(
    experiment: Experiment,
    scale: str,
    fidelity: str,
    found: Sequence[tuple[str, Path]],
    planned: int,
    place: Path,
    console: Console,
) -> None:
    rows = write_artefact(
        found,
        place,
        title=f"{experiment.title} ({scale} scale)",
        published=experiment.published,
        about={"experiment": experiment.name, "scale": scale, "fidelity": fidelity, "runs planned": planned},
    )
    grid = Grid("task", "method", "seeds", "return", "decisions", "frames", "updates", box=None)
    for row in rows:
        error = "" if row["standard error"] is None else f" ± {row['standard error']}"
        budget = (f"{row[unit]:,}" for unit in ("decisions", "frames", "updates"))
        grid.add_row(row["task"], row["method"], str(row["seeds"]), f"{row['return']}{error}", *budget)
    console.print(grid)
    console.print(f"{len(found)} of {planned} runs; {place / 'results.json'} says which", soft_wrap=True)


def _tabulate(
    experiment: Experiment, scale: str, place: Path, plan: bool, artefact_only: bool, threads: int | None
) -> int:
    """An artefact that is computed, not trained: shown, and written as table.json."""
    if plan:
        Console(stderr=True).print("no runs: one table, computed on this machine in minutes", highlight=False)
        return 0
    if artefact_only:
        raise ConfigError(f"reproduce: {experiment.name} has no runs to make its artefact from: it is computed")
    import torch

    from pamd.benchmarks.measure import Options
    from pamd.cli.bench import show
    from pamd.training.allocator import keep_freed_memory

    options = Options(threads or os.cpu_count() or 1, SCALES[scale].repetitions)
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    table = _table(experiment, scale, options)
    show(table, options)
    table.write(place / "table.json", options)
    Console(stderr=True).print(f"{place / 'table.json'}", highlight=False, soft_wrap=True)
    return 0


def _table(experiment: Experiment, scale: str, options: Options) -> Table:
    from pamd.benchmarks.measure import Table

    if experiment.benchmark is not None:
        measured: Any = importlib.import_module(f"pamd.benchmarks.{experiment.benchmark}")
        found: Table = measured.measure(options)
        return found
    assert experiment.compute is not None
    return Table(experiment.name, experiment.title, *experiment.compute(scale))
