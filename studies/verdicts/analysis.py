"""Tables and figures of the verdicts, from runs.parquet and exact.parquet."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pamd.experiments import Experiment
from pamd.report.comparison import compare
from pamd.report.run import Run, load_runs
from pamd.report.tables import returns
from pamd.runs import files
from pamd.table import Table, Value
from studies.output import publish_figure, write_tables
from studies.verdicts.answers import Answer, answers, compares_scales, exact_answers, rung_table
from studies.verdicts.instruments import instrument_table, measure
from studies.verdicts.plan import CLAIMS, EXACT, EXPERIMENTS
from studies.verdicts.plots import forest_figure

__all__ = ["EXACT_FITS", "HERE", "RUNS", "write"]

HERE = Path(__file__).parent
RUNS = HERE / "runs.parquet"
EXACT_FITS = HERE / "exact.parquet"
_UNITS = {EXACT: "log10 of the error"}
"""The compared quantity of a rung, if it is not the return."""
_SHOWN = ("states", "pixels")
"""The rungs whose returns the page shows."""


def write(out: Path = HERE, *, runs: Sequence[Path] = (RUNS,), figures: bool = True) -> list[Table]:
    """Write out/tables/*.csv and out/figures/verdicts.png, and return the tables."""
    found: dict[str, list[Answer]] = {EXACT: exact_answers(_fits(), CLAIMS)}
    loaded = load_runs(runs)
    tables = [_cost(loaded)]
    for rung, experiment in EXPERIMENTS.items():
        chosen = [run for run in loaded if _belongs(run, experiment)]
        if not chosen:
            continue
        comparison = compare(chosen, _labels(chosen))
        found[rung] = [answer for answer in answers(comparison, CLAIMS) if not compares_scales(answer.pair)]
        if rung in _SHOWN:
            tables += [
                dataclasses.replace(returns(comparison, scale), name=f"returns-{rung}") for scale in comparison.scales
            ]
        if rung == "states":
            tables.append(instrument_table(measure(comparison), np.random.default_rng(0)))
    tables.append(rung_table(found))
    write_tables(tables, out / "tables")
    if figures:
        units = {rung: _UNITS.get(rung, "return") for rung in found}
        publish_figure(forest_figure(found, out / "figures/verdicts", units))
    return tables


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
