"""The artefact of an experiment, from files alone: results.json, and the page."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pamd import durable
from pamd.published import load as load_published
from pamd.report import Curve, load_curve
from pamd.report.page import build
from pamd.report.statistics import mean_and_error

__all__ = ["write_artefact"]


def write_artefact(
    runs: Sequence[tuple[str, Path]], place: Path, *, title: str, published: str | None, about: dict[str, Any]
) -> list[dict[str, Any]]:
    """Write what the runs [(label, directory)] came to; the rows of its table, each traced to its directories."""
    curves = [(label, load_curve(path)) for label, path in runs]
    rows = _rows([(label, curve) for label, curve in curves if curve.decisions])
    place.mkdir(parents=True, exist_ok=True)
    durable.replace(place / "results.json", (json.dumps({**about, "rows": rows}, indent=1) + "\n").encode())
    numbers = load_published(published) if published is not None else ()
    build([curve.path for _, curve in curves if curve.decisions], place, title=title, published=numbers)
    return rows


def _rows(curves: Sequence[tuple[str, Curve]]) -> list[dict[str, Any]]:
    """A row for every task and label: the last evaluation that all of its seeds have."""
    rows = []
    for task, label in dict.fromkeys((curve.task, label) for label, curve in curves):
        group = [curve for name, curve in curves if (curve.task, name) == (task, label)]
        # Seeds that are further than others are read where the others are.
        at = min(curve.decisions[-1] for curve in group)
        places = [max(i for i, decisions in enumerate(curve.decisions) if decisions <= at) for curve in group]
        means = [statistics.fmean(curve.returns[i]) for curve, i in zip(group, places, strict=True)]
        mean, error = mean_and_error(means)
        first, i = group[0], places[0]
        rows.append(
            {
                "task": task,
                "method": label,
                "seeds": len(group),
                "return": round(mean, 2),
                "standard error": None if error is None else round(error, 2),
                "decisions": first.decisions[i],
                "frames": first.frames[i],
                "updates": first.updates[i],
                "runs": {curve.path.name: round(own, 2) for curve, own in zip(group, means, strict=True)},
            }
        )
    return rows
