"""`pamd reproduce NAME`: train the runs of a table or figure of the paper and write its artifact."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pamd import atomic_io, published
from pamd.atomic_io import check_directory
from pamd.cli.console import print_text
from pamd.cli.sweep import Execution, plan_jobs, print_plan, print_summary, run_jobs
from pamd.envs import choose_egl_device
from pamd.errors import ConfigError, NoRunsError, UnknownNameError
from pamd.experiments import EXPERIMENTS, SCALES, Experiment
from pamd.experiments.base import Fidelity
from pamd.replay.layout import StorageChoice
from pamd.report import page, tables
from pamd.report.comparison import Comparison, compare_readable
from pamd.report.diagnostics import draw
from pamd.report.run import read_runs
from pamd.runs import read_progress
from pamd.sweep import Job
from pamd.training.process import available_threads, keep_freed_memory

MOVED = {
    f"verdicts{rung}": "`python -m studies.verdicts run [--rung RUNG]` in a clone of the repository"
    for rung in ("", "-exact", "-toy", "-states", "-pixels", "-paper")
}
"""Experiments of earlier versions, and what runs them now."""


def reproduce(
    name: str,
    /,
    scale: str = "cpu",
    fidelity: Literal["paper", "released"] = "paper",
    seeds: tuple[int, ...] = (),
    tasks: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    decisions: int | None = None,
    storage: StorageChoice | None = None,
    videos: Path | None = None,
    runs: Path = Path("runs"),
    out: Path | None = None,
    plan: bool = False,
    report_only: bool = False,
    execution: Execution = Execution(),  # noqa: B008
) -> int:
    """Run an experiment and write its artifact. After an interruption, rerun the same command to continue.

    Args:
        name: an experiment (see `pamd list experiments`)
        scale: paper, cpu (hours on two cores) or smoke (only checks that everything runs)
        fidelity: which source to follow if the paper's text and the released code differ
        seeds: seeds to run (default: 0, 1, ..., as many as the scale defines)
        tasks: a subset of the experiment's tasks (default: all)
        methods: a subset of the experiment's methods (default: all)
        decisions: budget of each run, e.g. 50000 or 5e4 (default: the scale's)
        storage: where replays keep their frames; mmap uses disk; auto: memory if it fits, else mmap (default: auto)
        videos: directory of videos or pictures for backgrounds (default: clips of installed packages)
        runs: parent directory of the runs; experiments share the runs that they have in common
        out: directory of the artifact (default: RUNS/artifacts/NAME-SCALE)
        plan: only print the runs and a forecast of time, memory and disk
        report_only: do not train; write the artifact from the existing run directories
    """
    selection: dict[str, Any] = {
        "tasks": tasks,
        "methods": methods,
        "seeds": seeds,
        "decisions": decisions,
        "storage": storage,
        "videos": videos,
    }
    if scale not in SCALES:
        raise UnknownNameError("scale of experiments", scale, SCALES)
    experiment = EXPERIMENTS.get(name)
    out = runs / "artifacts" / f"{name}-{scale}" if out is None else out
    _check(experiment, plan, report_only, execution, [key for key, value in selection.items() if value])
    check_directory(out, "--out")
    choose_egl_device(execution.egl_device)
    print_text(f"{experiment.title}. It shows {experiment.shows}.")
    if not experiment.arms:
        return _compute(experiment, scale, out, plan, execution.resources.threads)
    if decisions is None and not seeds:  # Otherwise, the description of the scale is not true of these runs.
        print_text(f"scale {scale}: {SCALES[scale].what}")
    jobs, forecast = plan_jobs(experiment.runs(scale, fidelity, **selection), runs, execution)
    if not report_only:
        print_plan(jobs, forecast)
    if plan:
        return 0
    exit_code = 0 if report_only else print_summary(run_jobs(jobs, execution, forecast))
    _report(experiment, scale, fidelity, jobs, out, diagnose=not report_only and exit_code == 0)
    return exit_code


def _check(
    experiment: Experiment, plan: bool, report_only: bool, execution: Execution, run_options: Sequence[str]
) -> None:
    """Raise ConfigError if options contradict each other or the experiment.

    `run_options` names the options in use that select or change runs.
    """
    if plan and report_only:
        raise ConfigError("reproduce: --plan cannot be combined with --report-only")
    if experiment.needs_replay and execution.discard_replay:
        raise ConfigError(
            f"reproduce: {experiment.name} cannot be combined with --discard-replay:"
            " it reads the replay of a finished run"
        )
    if experiment.arms:
        return
    options = [f"--{name}" for name in run_options] + (["--report-only"] if report_only else [])
    if options:
        raise ConfigError(
            f"reproduce: {experiment.name} is computed, not trained: it cannot be combined with {', '.join(options)}"
        )


def _report(
    experiment: Experiment, scale: str, fidelity: Fidelity, jobs: Sequence[Job], out: Path, diagnose: bool
) -> None:
    """Write the artifact of the existing runs and print its table. `diagnose` runs the diagnostics first."""
    runs = [(job.label, job.path) for job in jobs if (job.path / "config.json").is_file()]
    if not any(read_progress(path).last_return is not None for _, path in runs):
        raise NoRunsError(
            f"no run of {experiment.name} at scale {scale} has been evaluated in {jobs[0].runs}:"
            " there is nothing to report"
        )
    if experiment.after is not None and diagnose:
        draw(experiment.after(scale, fidelity, runs))
    about = {"fidelity": fidelity, "runs planned": len(jobs)}
    comparison = write_artifact(experiment, runs, out, scale, about)
    for table in (tables.summary(comparison, np.random.default_rng(0)), tables.generalization(comparison)):
        if table is not None:
            print_text("\n".join([table.text(), *table.notes]))
    finished = sum(run.finished for run in comparison.runs)
    print_text(f"{finished} of {len(jobs)} runs finished; {out / 'results.json'} names them")


def write_artifact(
    experiment: Experiment, runs: Sequence[tuple[str, Path]], out: Path, scale: str, about: dict[str, Any]
) -> Comparison:
    """Write a page and results.json about `runs`, [(label, run directory)]. Both show the same cells.

    `about` has further fields of results.json.
    """
    groups: dict[str, list[Path]] = {}
    for label, path in runs:
        groups.setdefault(label, []).append(path)
    comparison = compare_readable(read_runs([path for _, path in runs]), groups)
    paper_numbers = published.load(experiment.published) if experiment.published is not None else []
    page.write(comparison, out, title=f"{experiment.title} ({scale} scale)", published=paper_numbers)
    unreadable = {run.name: run.reason for run in comparison.unreadable}
    rows = tables.records(comparison)
    content = {"experiment": experiment.name, "scale": scale, **about, "rows": rows, "unreadable": unreadable}
    atomic_io.replace(out / "results.json", (json.dumps(content, indent=1) + "\n").encode())
    return comparison


def _compute(experiment: Experiment, scale: str, out: Path, plan: bool, threads: int | None) -> int:
    """Compute an artifact that requires no training, print it and write it to table.json."""
    if plan:
        print_text("no runs: one table, computed on this machine in minutes")
        return 0
    import torch

    from pamd.measure import measured_text, write_measured

    threads = threads or available_threads()
    torch.set_num_threads(threads)
    keep_freed_memory()
    assert experiment.compute is not None
    table = experiment.compute(scale)
    print_text(measured_text(table, threads), stderr=False)
    write_measured(table, out / "table.json", threads, SCALES[scale].repetitions)
    print_text(str(out / "table.json"))
    return 0
