"""`pamd bench`: benchmarks against a reference implementation."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pamd.benchmarks import BENCHMARKS, ON_DEMAND
from pamd.cli.console import print_text
from pamd.errors import ConfigError, UnknownNameError
from pamd.training.threads import available_threads

if TYPE_CHECKING:
    from pamd.benchmarks.measure import Options
    from pamd.table import Table

__all__ = ["bench", "print_measured"]


def bench(
    names: tuple[str, ...] = (),
    /,
    *,
    threads: int | None = None,
    repetitions: int = 7,
    json: Path | None = None,
    most_runs: int | None = None,
    minutes: float | None = None,
    interruptions: int | None = None,
    decisions: int | None = None,
    tasks: tuple[str, ...] = (),
    settings: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (),
    limit_minutes: float | None = None,
    runs: Path | None = None,
    train: bool = True,
) -> None:
    """Benchmark pamd against a reference implementation in the style of typical research code.

    Both run in one process and alternate.

    Args:
        names: update, head, replay, render, distractors, pipeline, scaling, flops (default: all of these, about 20
            minutes). On request only: capacity (fills the disk with up to a million frames), learning (trains for
            hours; rerun the same command to continue), encoders (seven minutes), peers and integrations (require
            pamd[sb3]), and the reliability tests kills, mutations and soak
        threads: CPU threads of torch (default: all cores)
        repetitions: measurements of each benchmark, after one warm-up
        json: directory for one JSON file per benchmark; kills continues from an existing file
        most_runs: stop kills after this many runs (default: no limit)
        minutes: stop kills after this many minutes (default: 40)
        interruptions: stop kills after this many interruptions (default: 1000)
        decisions: budget of the soak run in decisions (default: 20000)
        tasks: tasks for learning (default: cartpole_swingup, reacher_easy, finger_spin, walker_walk) or encoders
        settings: settings for learning: cpu is the current scale, cpu-0.2 the scale of version 0.2.0 (default: both)
        methods: methods for learning (default: sac, dbc-det+pamd, simsr+pamd)
        seeds: seeds for learning, one run each (default: 0 1 2), or for encoders (default: 0 1)
        limit_minutes: stop each learning run after this much training time (default: 60)
        runs: parent directory of the learning runs (default: runs/bench-learning)
        train: train unfinished learning runs before building the table
    """
    given: dict[str, Any] = {
        "most_runs": most_runs,
        "minutes": minutes,
        "interruptions": interruptions,
        "decisions": decisions,
        "limit_minutes": limit_minutes,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    _check(names, repetitions, threads, chosen)
    from pamd.benchmarks.measure import Options

    options = Options(
        threads or available_threads(),
        repetitions,
        json,
        tasks=tasks,
        settings=settings,
        methods=methods,
        seeds=seeds,
        runs_in=runs,
        train=train,
        **chosen,
    )
    _measure(names or [name for name in BENCHMARKS if name not in ON_DEMAND], options)


def _check(names: Sequence[str], repetitions: int, threads: int | None, limits: Mapping[str, float]) -> None:
    """Raise an error if a benchmark is unknown or a number is too small."""
    for name in names:
        if name not in BENCHMARKS:
            raise UnknownNameError("benchmark", name, BENCHMARKS)
    if repetitions < 2:
        raise ConfigError(f"bench: repetitions must be at least 2, got {repetitions}")
    if threads is not None and threads < 1:
        raise ConfigError(f"bench: threads must be at least 1, got {threads}")
    for name, value in limits.items():
        if value <= 0:
            raise ConfigError(f"bench: {name} must be positive, got {value}")


def _measure(names: Sequence[str], options: Options) -> None:
    """Run the benchmarks. Print each table, and write it to `options.directory` if that is set."""
    import torch

    from pamd.benchmarks.measure import write_measured
    from pamd.training.allocator import keep_freed_memory

    torch.set_num_threads(options.threads)
    keep_freed_memory()
    for name in names:
        table = importlib.import_module(f"pamd.benchmarks.{name}").measure(options)
        print_measured(table, options)
        if options.directory is not None:
            write_measured(table, options.directory / f"{name}.json", options)


def print_measured(table: Table, options: Options) -> None:
    """Print a table, its notes and the machine."""
    from pamd.benchmarks.measure import machine

    found = ", ".join(f"{key} {value}" for key, value in machine(options.threads).items() if value is not None)
    lines = [f"{table.name}: {table.title}", "", table.text(), "", *(f"  {note}" for note in table.notes), f"  {found}"]
    print_text("\n".join(lines), stderr=False)
