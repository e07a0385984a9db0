"""Load run directories. An unreadable file is an error; an unfinished run is not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pamd.errors import RunError
from pamd.identity import tree_identity
from pamd.report import files
from pamd.report.differences import canonical
from pamd.report.find import find_runs
from pamd.report.fingerprint import verify_config
from pamd.report.layout import parse_config
from pamd.report.logs import Row, read_evaluations, read_repairs, read_timing
from pamd.report.run import Curve, Run, Unreadable, display_name, task_name
from pamd.report.text import parse_json

__all__ = ["Found", "load_run", "load_runs", "read_runs"]

_STATES = ("running", "finished", "interrupted", "failed")
_LATEST = 253402300800
"""The end of the year 9999 in Unix time, the latest date that Python supports."""


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
    places: dict[Path, Path | Unreadable] = {}
    for path in paths:
        for place in find_runs(Path(path)):
            places.setdefault((place.path if isinstance(place, Unreadable) else place).resolve(), place)
    found, seen = Found([], []), dict[str, Path]()
    for place in places.values():
        if isinstance(place, Unreadable):
            found.unreadable.append(place)
            continue
        try:
            run = load_run(place)
            _check_new(run, seen)
        except RunError as error:
            found.unreadable.append(Unreadable(place, str(error)))
        else:
            found.runs.append(run)
    return found


def load_run(path: Path) -> Run:
    """Load the run in `path`, finished or not. Each file is read only once because the run may still be active."""
    file = path / "config.json"
    try:
        data = files.read(path, "config.json")
        text, raw = data.decode(), parse_json(data)
    except (OSError, ValueError) as error:
        raise RunError(f"{file} cannot be read: {error}") from None
    config = parse_config(raw, str(file))
    verified = verify_config(path, raw)
    evaluations, timing = read_evaluations(path / "eval.jsonl"), read_timing(path / "timing.jsonl")
    curve = _curve(path, config, evaluations.rows, timing.rows)
    if config["env"].get("action_repeat") is None:
        config["env"]["action_repeat"] = _action_repeat(curve)
    notices = (evaluations.notice, timing.notice, verified.notice, *read_repairs(path / "repairs.jsonl"))
    status = _status(path)
    return Run(curve, config, status.state, status.time, tuple(filter(None, notices)), text, verified.by)


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
        method=display_name(config),
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


class _Status(NamedTuple):
    state: str = ""
    time: float | None = None


def _status(path: Path) -> _Status:
    """Read the status of a run. It is only informative. The evaluations determine whether the run is finished."""
    try:
        status = parse_json(files.read(path, "status.json"))
    except (OSError, ValueError):
        return _Status()
    if not isinstance(status, dict):
        return _Status()
    state, time = status.get("state"), status.get("time")
    return _Status(
        state if state in _STATES else "",
        float(time) if isinstance(time, int | float) and 0 < time < _LATEST else None,
    )
