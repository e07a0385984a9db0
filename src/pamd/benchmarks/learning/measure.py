"""`pamd bench learning`: train the remaining runs, read all runs, and measure the reference implementation."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from pamd.benchmarks.learning.curve import Outcome, outcome, read_points
from pamd.benchmarks.learning.plan import METHODS, SEEDS, SETTINGS, TASKS, check_names, make_config
from pamd.benchmarks.learning.race import train_all
from pamd.benchmarks.learning.table import Entry, make_table
from pamd.benchmarks.measure import Options, interleave
from pamd.benchmarks.naive import NaiveAgent
from pamd.benchmarks.update import make_agent, make_batch, twice
from pamd.configuration import split_name
from pamd.errors import RunError
from pamd.sweep import Job, jobs
from pamd.sweep.backends.base import cores
from pamd.table import Table
from pamd.training.threads import torch_threads

__all__ = ["measure"]

RUNS = Path("runs/bench-learning")


def measure(options: Options) -> Table:
    """Return the table of all runs. With `options.train`, train the unfinished runs first."""
    tasks, settings = options.tasks or tuple(TASKS), options.settings or tuple(SETTINGS)
    check_names(tasks, settings)
    methods, seeds, limit = options.methods or METHODS, options.seeds or SEEDS, 60 * options.limit_minutes
    planned = {
        (task, setting, method, seed): make_config(task, setting, method, seed)
        for seed in seeds
        for task in tasks
        for setting in settings
        for method in methods
    }
    made = [jobs([(" ".join(map(str, key)), config)], options.runs_in or RUNS)[0] for key, config in planned.items()]

    def ending(job: Job) -> Outcome:
        return outcome(read_points(job.path), TASKS[job.config.env.task], limit, job.config.decisions)

    if options.train:
        # Two settings with the same computation share one run.
        _train(list({job.name: job for job in made}.values()), ending)
    entries = [Entry(*key, ending(job)) for key, job in zip(planned, made, strict=True)]
    order = sorted(entries, key=lambda e: (tasks.index(e.task), settings.index(e.setting), methods.index(e.method)))
    return make_table(order, TASKS, limit, _update_seconds(methods, options.repetitions))


def _train(unique: Sequence[Job], ending: Callable[[Job], Outcome]) -> None:
    """Train the unfinished runs, and delete the replay of each run that reached its return."""
    ended = train_all(unique, cores(), lambda job: ending(job).over, lambda job: _sentence(ending(job)))
    if failed := [run for run in ended if run.state == "failed"]:
        raise RunError(f"bench learning: {failed[0].job.path} failed: {failed[0].error}")
    for job in unique:
        if ending(job).state == "reached":  # The replay takes most of the disk space, and only training reads it.
            shutil.rmtree(job.path / "replay", ignore_errors=True)


def _sentence(found: Outcome) -> str:
    point = found.point
    done = f"return {point.mean:.0f} after {point.seconds / 60:.1f} minutes and {point.decisions} decisions"
    return f"{found.state}, {done}"


def _update_seconds(methods: Sequence[str], repetitions: int) -> dict[str, float]:
    """Return the time of one update of the reference implementation (SAC) at the released settings, on one thread."""
    batch, known = make_batch("paper"), [name for name in methods if split_name(name)[0] == "sac"]
    with torch_threads(1):
        agents = {name: NaiveAgent(make_agent(name, fidelity="released")) for name in known}
        taken = interleave({name: twice(agent, batch) for name, agent in agents.items()}, repetitions)
    return {name: statistics.median(seconds) / 2 for name, seconds in taken.items()}
