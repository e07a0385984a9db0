"""Tables and figures of the verdicts, from runs.parquet and exact.parquet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pamd.experiments import Experiment
from pamd.report.comparison import Comparison, compare
from pamd.report.run import Run, load_runs
from pamd.runs import files
from pamd.table import Table, Value
from studies.output import comparison_tables, publish_figure, write_tables
from studies.verdicts.answers import (
    EXACT_OUTCOMES,
    OUTCOMES,
    Answer,
    answers,
    exact_answers,
    rung_table,
    verdict_table,
)
from studies.verdicts.instruments import instrument_figure, instrument_table, measure
from studies.verdicts.plan import CLAIMS, EXACT, EXPERIMENTS
from studies.verdicts.plots import claim_curves, forest_figure

__all__ = ["EXACT_FITS", "HERE", "RUNS", "write"]

HERE = Path(__file__).parent
RUNS = HERE / "runs.parquet"
EXACT_FITS = HERE / "exact.parquet"
_UNITS = {EXACT: "log10 of the error"}
"""The compared quantity of a rung, if it is not the return."""


def write(out: Path = HERE, *, runs: Sequence[Path] = (RUNS,), figures: bool = True) -> list[Table]:
    """Write out/tables/*.csv and out/figures/*.png, and return the tables that decide the claims."""
    found: dict[str, list[Answer]] = {}
    decisive: list[Table] = []
    tables, found[EXACT] = _exact(_fits())
    decisive += tables
    write_tables(tables, out / "tables" / EXACT)
    loaded = load_runs(runs)
    for rung, experiment in EXPERIMENTS.items():
        chosen = [run for run in loaded if _belongs(run, experiment)]
        if not chosen:
            continue
        comparison = compare(chosen, _labels(chosen))
        tables, found[rung] = _verdicts(comparison, experiment.name)
        measured = measure(comparison)
        instruments = instrument_table(measured, experiment.name, np.random.default_rng(0))
        tables += [instruments] if instruments is not None else []
        decisive += tables
        write_tables([*comparison_tables(comparison), *tables], out / "tables" / rung)
        if figures:
            publish_figure(claim_curves(comparison, CLAIMS, out / "figures" / f"{rung}-curves"))
            publish_figure(instrument_figure(measured, out / "figures" / f"{rung}-instruments"))
    overall = rung_table(found)
    write_tables([overall, _cost(loaded)], out / "tables")
    if figures:
        units = {rung: _UNITS.get(rung, "return") for rung in found}
        publish_figure(forest_figure(found, out / "figures" / overall.name, units))
    return [*decisive, overall]


def _cost(loaded: Sequence[Run]) -> Table:
    """Return the runs of each rung and the core-hours that they took, one thread each."""
    rows: list[list[Value]] = []
    for rung, experiment in EXPERIMENTS.items():
        chosen = [run for run in loaded if _belongs(run, experiment)]
        if chosen:
            seconds = sum(_seconds(run) for run in chosen)
            planned = len(experiment.arms) * (experiment.seeds or 1)
            rows.append([rung, len(chosen), planned, f"{seconds / 3600:.1f}"])
    return Table("cost", "Cost", ["rung", "runs", "planned", "core-hours"], rows)


def _exact(fits: Sequence[Mapping[str, Any]]) -> tuple[list[Table], list[Answer]]:
    """Return the verdicts on exact fits, one table per outcome, and all answers."""
    tables, found = [], list[Answer]()
    for outcome in EXACT_OUTCOMES:
        decided = exact_answers(fits, CLAIMS, outcome, np.random.default_rng(0))
        if decided:
            tables.append(verdict_table(decided, CLAIMS, f"verdicts-{EXACT}", outcome, _UNITS[EXACT]))
        found += decided
    return tables, found


def _verdicts(comparison: Comparison, name: str) -> tuple[list[Table], list[Answer]]:
    """Return the verdicts on runs, one table per outcome, and the answers for the outcome that decides."""
    by_outcome = {one: answers(comparison, CLAIMS, one, np.random.default_rng(0)) for one in OUTCOMES}
    tables = [verdict_table(found, CLAIMS, name, outcome) for outcome, found in by_outcome.items() if found]
    return tables, by_outcome[next(iter(OUTCOMES))]


def _belongs(run: Run, experiment: Experiment) -> bool:
    """Return whether a run has the task, the budget and the method of an arm of the experiment."""
    own = (run.config["env"]["task"], run.curve.method, run.budget)
    return any(own == (arm.task, arm.label, arm.decisions) for arm in experiment.arms)


def _labels(runs: Sequence[Run]) -> dict[str, list[Path]]:
    """Group runs by the labels of their arms. A variant is part of the name of its method."""
    groups: dict[str, list[Path]] = {}
    for run in runs:
        groups.setdefault(run.curve.method, []).append(run.path)
    return groups


def _fits() -> list[dict[str, Any]]:
    from pyarrow import parquet

    return list(parquet.read_table(EXACT_FITS).to_pylist())


def _seconds(run: Run) -> float:
    return float(json.loads(files.read(run.path, "status.json"))["seconds"])
