"""The table of measurements at the end of six runs, and the dimension that each distance needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pamd.report.run import Run, load_runs
from pamd.runs.logs import read_log
from pamd.table import Table, Value
from studies.output import draw_diagnostic, write_tables

__all__ = ["HERE", "write"]

HERE = Path(__file__).parent
METHODS = {
    "simsr+pamd": "sphere (the paper's)",
    "simsr+pamd-ball": "ball",
    "simsr+pamd-scaled": "sphere, learned scale (`pamd-scaled`)",
}
MEASUREMENTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "largest value of the distance": lambda end: _number(end["reach_largest"]),
    "bound on the operator's fixed point, last batch": lambda end: _number(end["reach_fixed_point"]),
    "targets out of reach, last batch": lambda end: f"{end['reach_missed']:.0%}",
    "mean target": lambda end: f"{end['target_mean']:.1f}",
    "mean value": lambda end: f"{end['distance_mean']:.1f}",
    "value over its upper bound, median": lambda end: f"{end['value_over_upper_median']:.3f}",
    "effective rank of G̃, median": lambda end: f"{end['effective_rank_median']:.2f}",
    "learned scale s": lambda end: "fixed" if end["scale"] == 1 else f"{end['scale']:.1f}",
    "triples that break the triangle inequality": lambda end: f"{end['triangle']:.1%}",
    "return after 3,000 decisions": lambda end: f"{end['returns'][3000]:.0f}",
    "return after 6,000 decisions": lambda end: f"{end['returns'][6000]:.0f}",
}


def write(out: Path = HERE, *, figures: bool = True) -> None:
    """Write the tables of the runs and of the dimension, and its figure."""
    geometry = json.loads((HERE / "geometry.json").read_text())
    runs = sorted(load_runs([HERE / "runs.parquet"]), key=lambda run: run.seed)
    ends = {method: [_end(run, geometry) for run in runs if run.curve.method == method] for method in METHODS}
    rows: list[list[Value]] = [
        [name, *(" / ".join(map(show, ends[method])) for method in METHODS)] for name, show in MEASUREMENTS.items()
    ]
    table = Table("measurements", "At the end of the runs, seed 0 / seed 1", ["", *METHODS.values()], rows)
    dimension = draw_diagnostic(HERE / "dimension", out / "figures" if figures else None)
    write_tables([table, *dimension], out / "tables")


def _end(run: Run, geometry: dict[str, Any]) -> dict[str, Any]:
    """Return the last logged value of everything that a run measures, with its geometry and its returns."""
    found: dict[str, Any] = {}
    for row in read_log(run.path / "train.jsonl").rows:
        found |= {key: value for key, value in row.items() if value is not None}
    returns = {at: sum(values) / len(values) for at, values in zip(run.curve.decisions, run.curve.returns, strict=True)}
    return {**found, **geometry[run.name], "returns": returns}


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
