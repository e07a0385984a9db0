"""Write the artifact of an experiment, results.json and an HTML page, from its run directories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pamd import durable, published
from pamd.experiments import Experiment
from pamd.report import page, results
from pamd.report.aggregate import Comparison, compare_found
from pamd.report.load import read_runs
from pamd.report.verdicts import OUTCOMES, answers, verdict_table
from pamd.table import Table

__all__ = ["verdict_tables", "write_artifact"]


def write_artifact(
    experiment: Experiment, runs: Sequence[tuple[str, Path]], out: Path, scale: str, about: dict[str, Any]
) -> Comparison:
    """Write the results of `runs`, [(label, run directory)]. The page and results.json show the same cells."""
    groups: dict[str, list[Path]] = {}
    for label, path in runs:
        groups.setdefault(label, []).append(path)
    comparison = compare_found(read_runs([path for _, path in runs]), groups)
    numbers = published.load(experiment.published) if experiment.published is not None else []
    page.write(comparison, out, title=f"{experiment.title} ({scale} scale)", published=numbers)
    unreadable = {one.name: one.reason for one in comparison.unreadable}
    rows = results.records(comparison)
    content = {"experiment": experiment.name, "scale": scale, **about, "rows": rows, "unreadable": unreadable}
    durable.replace(out / "results.json", (json.dumps(content, indent=1) + "\n").encode())
    return comparison


def verdict_tables(experiment: Experiment, comparison: Comparison) -> list[Table]:
    """Return the verdicts on the experiment's claims, one table per outcome."""
    tables = []
    for outcome in OUTCOMES if experiment.claims else ():
        found = answers(comparison, experiment.claims, outcome, np.random.default_rng(0))
        tables += [verdict_table(found, experiment.claims, experiment.name, outcome)] if found else []
    return tables
