"""Load runs for a report. An unreadable run is an error; an unfinished one is not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pamd.errors import RunError
from pamd.report.differences import canonical
from pamd.report.layout import parse_config
from pamd.report.run import Curve, Run, task_name
from pamd.runs import RunRecord, Unreadable, find_runs, read_record
from pamd.runs.identity import method_label, tree_identity
from pamd.runs.logs import Row

__all__ = ["Found", "load_run", "load_runs", "read_runs", "run_of"]


class Found(NamedTuple):
    """The readable runs and unreadable directories of a report."""

    runs: list[Run]
    unreadable: list[Unreadable]


def load_runs(paths: Sequence[Path]) -> list[Run]:
    """Load all runs in `paths`. Raises RunError if one cannot be read."""
    runs, unreadable = read_runs(paths)
    if unreadable:
        raise RunError(unreadable[0].reason)
    return runs


def read_runs(paths: Sequence[Path]) -> Found:
    """Load all runs in `paths`, which are run directories or directories that contain runs.

    A directory that is given twice counts once. A directory with the same name or config as an earlier one is listed as
    unreadable.
    """
    directories: dict[Path, Path | Unreadable] = {}
    for path in paths:
        for one in find_runs(Path(path)):
            directories.setdefault((one.path if isinstance(one, Unreadable) else one).resolve(), one)
    found, seen = Found([], []), dict[str, Path]()
    for directory in directories.values():
        if isinstance(directory, Unreadable):
            found.unreadable.append(directory)
            continue
        try:
            run = load_run(directory)
            _check_new(run, seen)
        except RunError as error:
            found.unreadable.append(Unreadable(directory, str(error)))
        else:
            found.runs.append(run)
    return found


def load_run(path: Path) -> Run:
    """Load the run in `path`, finished or not."""
    return run_of(read_record(path))


def run_of(record: RunRecord) -> Run:
    """Return the run of a record. Raises RunError if its config is not that of a run."""
    config = parse_config(record.config, str(record.path / "config.json"))
    curve = _curve(record.path, config, record.evaluations, record.timing)
    if config["env"].get("action_repeat") is None:
        config["env"]["action_repeat"] = _action_repeat(curve)
    status = record.status
    return Run(curve, config, status.known_state, status.time, record.notices, record.config_text, record.verified)


def _check_new(run: Run, seen: dict[str, Path]) -> None:
    """Raise RunError if a run with the same name or config was already loaded."""
    keys = {"name": run.path.resolve().name, "config": canonical(tree_identity(run.config))}
    for what, key in keys.items():
        if key in seen:
            raise RunError(f"{seen[key]} and {run.path} have the same {what}: one run must not count twice")
    seen.update(dict.fromkeys(keys.values(), run.path))


def _curve(path: Path, config: Mapping[str, Any], rows: Sequence[Row], timing: Sequence[Row]) -> Curve:
    decisions = [row["decisions"] for row in rows]
    return Curve(
        task=task_name(config),
        method=method_label(config["learner"]["name"], config["method"]["name"]),
        fidelity=config["method"]["fidelity"],
        seed=config["seed"],
        decisions=decisions,
        frames=[row["frames"] for row in rows],
        updates=[row["updates"] for row in rows],
        seconds=_seconds(decisions, timing),
        returns=[row["returns"] for row in rows],
        unseen=[row.get("unseen_returns", []) for row in rows],
        path=path,
    )


def _seconds(decisions: Sequence[int], timing: Sequence[Row]) -> list[float | None]:
    if not timing:
        return [None] * len(decisions)
    at, clock = [0, *(row["decisions"] for row in timing)], [0.0, *(row["seconds"] for row in timing)]
    return [float(np.interp(step, at, clock)) if step <= at[-1] else None for step in decisions]


def _action_repeat(curve: Curve) -> int:
    """Return the frames per decision of a run of the first layout, from its counters; 0 if it has no decisions."""
    if not curve.decisions or not curve.decisions[-1]:
        return 0
    # The last decision of an episode may have fewer frames, so the mean is less than one below the action repeat.
    return math.ceil(curve.frames[-1] / curve.decisions[-1])
