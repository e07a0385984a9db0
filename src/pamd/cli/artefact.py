"""The artefact of an experiment, from files alone: results.json and the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pamd import durable, published
from pamd.experiments import Experiment
from pamd.report import page, results
from pamd.report.aggregate import Comparison, compare
from pamd.report.load import load_runs

__all__ = ["write_artefact"]


def write_artefact(
    experiment: Experiment, runs: Sequence[tuple[str, Path]], out: Path, scale: str, about: dict[str, Any]
) -> Comparison:
    """Write what `runs`, [(label, run directory)], came to. The page and results.json show the same cells."""
    groups: dict[str, list[Path]] = {}
    for label, path in runs:
        groups.setdefault(label, []).append(path)
    comparison = compare(load_runs([path for _, path in runs]), groups)
    numbers = published.load(experiment.published) if experiment.published is not None else []
    page.write(comparison, out, title=f"{experiment.title} ({scale} scale)", published=numbers)
    content = {"experiment": experiment.name, "scale": scale, **about, "rows": results.records(comparison)}
    durable.replace(out / "results.json", (json.dumps(content, indent=1) + "\n").encode())
    return comparison
