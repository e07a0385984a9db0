"""`pamd reproduce NAME`: train the runs of a table or figure of the paper and write its artifact."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pamd.cli.artifact import verdict_tables, write_artifact
from pamd.cli.console import print_text
from pamd.cli.sweep import Execution, plan_jobs, print_plan, print_summary, run_jobs
from pamd.cli.verdicts import (
    DEFAULT_RUNGS,
    EXACT,
    RUNGS,
    reproduce_exact,
    write_and_print,
    write_instruments,
    write_rungs,
)
from pamd.configuration import Storage
from pamd.durable import check_directory
from pamd.errors import ConfigError, NoRunsError, UnknownNameError
from pamd.experiments import EXPERIMENTS, SCALES, Experiment
from pamd.report import results
from pamd.report.aggregate import Comparison
from pamd.report.claim_curves import claim_curves
from pamd.report.diagnostics import draw
from pamd.report.verdicts import OUTCOMES, Answer, answers
from pamd.sweep import Job
from pamd.sweep.state import read_state
from pamd.training.threads import available_threads

__all__ = ["reproduce"]

VERDICTS = "verdicts"
"""The common name of all experiments with claims: verdicts-toy, verdicts-states, ..."""


def reproduce(
    name: str,
    /,
    scale: str = "cpu",
    fidelity: Literal["paper", "released"] = "paper",
    seeds: tuple[int, ...] = (),
    tasks: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    decisions: int | None = None,
    storage: Storage | None = None,
    runs: Path = Path("runs"),
    out: Path | None = None,
    plan: bool = False,
    report_only: bool = False,
    rung: tuple[str, ...] = (),
    execution: Execution = Execution(),  # noqa: B008
) -> int:
    """Run an experiment and write its artifact. After an interruption, rerun the same command to continue.

    Args:
        name: an experiment (see `pamd list experiments`), or verdicts
        scale: paper, cpu (hours on two cores) or smoke (only checks that everything runs)
        fidelity: which source to follow if the paper's text and the released code differ
        seeds: seeds to run (default: 0, 1, ..., as many as the scale defines)
        tasks: a subset of the experiment's tasks (default: all)
        methods: a subset of the experiment's methods (default: all)
        decisions: budget of each run, e.g. 50000 or 5e4 (default: the scale's)
        storage: where replays keep their frames; mmap uses disk instead of memory (default: memory)
        runs: parent directory of the runs; experiments share the runs that they have in common
        out: directory of the artifact (default: RUNS/artifacts/NAME-SCALE)
        plan: only print the runs and a forecast of time, memory and disk
        report_only: do not train; write the artifact from the existing run directories
        rung: which parts of `verdicts` to run: exact, toy, states, pixels, paper (default: all but paper)
    """
    selection = {"tasks": tasks, "methods": methods, "seeds": seeds, "decisions": decisions, "storage": storage}
    if scale not in SCALES:
        raise UnknownNameError("scale of experiments", scale, SCALES)
    chosen = _select_experiments(name, rung)
    codes, found = [0], {}
    for one, full_name in chosen.items():
        place = runs / "artifacts" / f"{full_name}-{scale}" if out is None else out / one if name == VERDICTS else out
        try:
            if one == EXACT:
                found[one] = reproduce_exact(scale, runs, place, plan=plan, report_only=report_only)
                continue
            given = (fidelity, selection, runs, place, plan, report_only, execution)
            code, found[one] = _reproduce(EXPERIMENTS.get(full_name), scale, *given)
            codes.append(code)
        except NoRunsError as error:
            if name != VERDICTS or rung:
                raise
            print_text(str(error))  # The other rungs can still be reported.
    if name == VERDICTS:
        write_rungs(found, out or runs / "artifacts" / f"{VERDICTS}-{scale}")
    return next((code for code in codes if code), 0)


def _select_experiments(name: str, rungs: Sequence[str]) -> dict[str, str]:
    """Return the selected experiments by short name. `verdicts` selects the given rungs, by default DEFAULT_RUNGS."""
    if name != VERDICTS:
        if rungs:
            raise ConfigError(f"reproduce: --rung requires {VERDICTS}, got {name}")
        return {name: name}
    for rung in rungs:
        if rung not in RUNGS:
            raise UnknownNameError("rung", rung, RUNGS)
    return {rung: f"{VERDICTS}-{rung}" for rung in RUNGS if rung in (rungs or DEFAULT_RUNGS)}


def _reproduce(
    experiment: Experiment,
    scale: str,
    fidelity: Literal["paper", "released"],
    selection: Mapping[str, Any],
    runs: Path,
    out: Path,
    plan: bool,
    report_only: bool,
    execution: Execution,
) -> tuple[int, list[Answer]]:
    """Run one experiment and write its artifact. Return the exit code and the answers to its claims.

    `selection` contains the options of its runs.
    """
    _check(experiment, plan, report_only, execution, [key for key, value in selection.items() if value])
    check_directory(out, "--out")
    print_text(f"{experiment.title}. It shows {experiment.shows}.")
    if not experiment.arms:
        return _compute(experiment, scale, out, plan, execution.resources.threads), []
    own_scale = scale != "smoke" and all(arm.scale is not None for arm in experiment.arms)
    if selection["decisions"] is None and not selection["seeds"] and not own_scale:
        print_text(f"scale {scale}: {SCALES[scale].what}")
    planned, forecast = plan_jobs(experiment.runs(scale, fidelity, **selection), runs, execution)
    if not report_only:
        print_plan(planned, forecast)
    if plan:
        return 0, []
    code = 0 if report_only else print_summary(run_jobs(planned, execution, forecast))
    comparison = _write(experiment, scale, fidelity, planned, out, diagnose=not report_only and code == 0)
    return code, answers(comparison, experiment.claims, next(iter(OUTCOMES)), np.random.default_rng(0))


def _check(experiment: Experiment, plan: bool, report_only: bool, execution: Execution, given: Sequence[str]) -> None:
    """Raise ConfigError if options contradict each other or the experiment. `given` names the options of the runs."""
    if plan and report_only:
        raise ConfigError("reproduce: --plan cannot be combined with --report-only")
    if experiment.needs_replay and execution.discard_replay:
        raise ConfigError(
            f"reproduce: {experiment.name} cannot be combined with --discard-replay:"
            " it reads the replay of a finished run"
        )
    if experiment.arms:
        return
    options = [f"--{key}" for key in given] + (["--report-only"] if report_only else [])
    if options:
        raise ConfigError(
            f"reproduce: {experiment.name} is computed, not trained: it cannot be combined with {', '.join(options)}"
        )


def _write(
    experiment: Experiment, scale: str, fidelity: str, planned: Sequence[Job], out: Path, diagnose: bool
) -> Comparison:
    """Write the artifact of the existing runs and print its table."""
    existing = [(job.label, job.path) for job in planned if (job.path / "config.json").is_file()]
    if not any(read_state(path).last_return is not None for _, path in existing):
        raise NoRunsError(
            f"no run of {experiment.name} at scale {scale} has been evaluated in {planned[0].runs}:"
            " there is nothing to report"
        )
    if experiment.after is not None and diagnose:
        draw(experiment.after(scale, existing))
    about = {"fidelity": fidelity, "runs planned": len(planned)}
    comparison = write_artifact(experiment, existing, out, scale, about)
    table = results.summary(comparison, np.random.default_rng(0))
    print_text("\n".join([table.text(), *table.notes]))
    for table in verdict_tables(experiment, comparison):
        write_and_print(table, out)
    if experiment.claims:
        write_instruments(comparison, experiment.name, out)
        claim_curves(comparison, experiment.claims, out / f"{experiment.name}-curves")
    finished = sum(run.finished for run in comparison.runs)
    print_text(f"{finished} of {len(planned)} runs finished; {out / 'results.json'} names them")
    return comparison


def _compute(experiment: Experiment, scale: str, out: Path, plan: bool, threads: int | None) -> int:
    """Compute an artifact that requires no training, print it and write it to table.json."""
    if plan:
        print_text("no runs: one table, computed on this machine in minutes")
        return 0
    import torch

    from pamd.benchmarks.measure import Options, write_measured
    from pamd.cli.bench import print_measured
    from pamd.training.allocator import keep_freed_memory

    options = Options(threads or available_threads(), SCALES[scale].repetitions)
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    if experiment.benchmark is not None:
        benchmark: Any = importlib.import_module(f"pamd.benchmarks.{experiment.benchmark}")
        table = benchmark.measure(options)
    else:
        assert experiment.compute is not None
        table = experiment.compute(scale)
    print_measured(table, options)
    write_measured(table, out / "table.json", options)
    print_text(f"{out / 'table.json'}")
    return 0
