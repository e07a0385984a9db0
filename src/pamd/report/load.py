"""Run directories as they are on disk. A file that cannot be read is an error; an unfinished run is not."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pamd.errors import RunError, nearest
from pamd.report.differences import canonical
from pamd.report.layout import read_config
from pamd.report.logs import Row, read_evaluations, read_timing

__all__ = ["Curve", "Run", "display_name", "load_run", "load_runs"]

_DEEPEST = 4
"""How many levels below a given directory runs are searched."""
_NOT_IDENTITY = ("decisions", "runtime")
"""A run keeps its identity when its budget or its runtime changes."""


@dataclass(frozen=True)
class Curve:
    """The N evaluations of one run."""

    task: str
    method: str
    fidelity: str
    seed: int
    decisions: list[int]
    """[N]"""
    frames: list[int]
    """[N]"""
    updates: list[int]
    """[N]"""
    seconds: list[float | None]
    """[N] wall time, interpolated between the rows of timing.jsonl; None outside of them."""
    returns: list[list[float]]
    """[N][episodes]"""
    unseen: list[list[float]]
    """[N][episodes] with backgrounds that training never shows; [] where an evaluation has none."""
    path: Path


@dataclass(frozen=True)
class Run:
    """A run as its directory has it. Nothing is dropped."""

    curve: Curve
    config: dict[str, Any]
    """In the present layout."""
    state: str
    """finished, running, interrupted or failed, as the run wrote; "" where it wrote nothing."""
    notices: tuple[str, ...]
    """What a reader of the report should know about its files."""

    @property
    def path(self) -> Path:
        return self.curve.path

    @property
    def seed(self) -> int:
        return self.curve.seed

    @property
    def budget(self) -> int:
        """The decisions of the whole run."""
        return int(self.config["decisions"])

    @property
    def evaluated(self) -> int:
        """The decisions of its last evaluation; -1 before the first."""
        return self.curve.decisions[-1] if self.curve.decisions else -1

    @property
    def finished(self) -> bool:
        """Whether it was evaluated at the end of its budget. Only a finished run has a score."""
        return self.evaluated >= self.budget

    @property
    def score(self) -> float:
        """The mean return of its last evaluation."""
        return float(np.mean(self.curve.returns[-1]))

    @property
    def unseen_score(self) -> float | None:
        """The mean return with unseen backgrounds; None where there are none."""
        return float(np.mean(self.curve.unseen[-1])) if self.curve.unseen[-1] else None

    @property
    def progress(self) -> str:
        """Why the run has no score yet: its state, and how far it is."""
        state = "unfinished" if self.state in ("", "finished") else self.state
        return f"{state} at {max(self.evaluated, 0):,} of {self.budget:,} decisions"


def display_name(config: Mapping[str, Any]) -> str:
    """The name of what a run trains: its method, with the learner in front unless that is SAC.

    sac + none: "sac"; sac + simsr: "simsr"; drqv2 + none: "drqv2"; drqv2 + simsr: "drqv2:simsr".
    """
    learner, method = str(config["learner"]["name"]), str(config["method"]["name"])
    if method == "none":
        return learner
    return method if learner == "sac" else f"{learner}:{method}"


def load_runs(paths: Sequence[Path]) -> list[Run]:
    """Every run in `paths`, which are run directories or directories with runs below them.

    The same directory given twice counts once. Two directories of one name or one run are an error.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        for place in _runs_in(Path(path)):
            found.setdefault(place.resolve(), place)
    runs = [load_run(path) for path in found.values()]
    seen: dict[str, Path] = {}
    for run in runs:
        identity = {key: value for key, value in run.config.items() if key not in _NOT_IDENTITY}
        for what, key in (("name", run.path.resolve().name), ("config", canonical(identity))):
            if key in seen:
                raise RunError(f"{seen[key]} and {run.path} have the same {what}: one run must not count twice")
            seen[key] = run.path
    return runs


def load_run(path: Path) -> Run:
    """The run in `path`, whatever its state. Each file is read once, because the run may still be writing."""
    config = read_config(path / "config.json")
    evaluations, timing = read_evaluations(path / "eval.jsonl"), read_timing(path / "timing.jsonl")
    curve = _curve(path, config, evaluations.rows, timing.rows)
    if config["env"].get("action_repeat") is None:
        config["env"]["action_repeat"] = _action_repeat(curve)
    notices = tuple(log.notice for log in (evaluations, timing) if log.notice)
    return Run(curve, config, _state(path), notices)


def _curve(path: Path, config: Mapping[str, Any], rows: Sequence[Row], timing: Sequence[Row]) -> Curve:
    distractor = config["env"].get("distractor")
    decisions = [row["decisions"] for row in rows]
    return Curve(
        # A task with another background is another task: the two must never share a curve.
        task=config["env"]["task"] + (f" + {distractor['name']}" if distractor else ""),
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
    """The frames of a decision, counted by a run of the first layout; 0 where it has not counted any."""
    if not curve.decisions or not curve.decisions[-1]:
        return 0
    # The last decision of an episode may take fewer frames: the mean lies below the repeat, by less than one.
    return math.ceil(curve.frames[-1] / curve.decisions[-1])


def _state(path: Path) -> str:
    try:
        return str(json.loads((path / "status.json").read_text())["state"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""  # The status is only informative: the evaluations decide.


def _runs_in(path: Path, depth: int = 0) -> Iterator[Path]:
    """Run directories at or below `path`; RunError where the given path has none."""
    try:
        if (path / "config.json").is_file():
            yield path
            return
        inside = sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith("."))
    except OSError as error:
        hint = nearest(path.name, _siblings(path))
        raise RunError(f"{path} cannot be read: {error.strerror}" + (f"; near: {hint}" if hint else "")) from None
    if (path / "eval.jsonl").exists():
        raise RunError(f"{path} has evaluations but no config.json: nothing says what they evaluate")
    below = [run for child in inside if depth < _DEEPEST for run in _runs_in(child, depth + 1)]
    if not below and depth == 0:
        raise RunError(f"{path} is not a run directory and contains none: there is no config.json")
    yield from below


def _siblings(path: Path) -> list[str]:
    """Names of the directories beside `path`, which may not exist."""
    return [found.name for found in path.parent.glob("*") if found.name != path.name and found.is_dir()]
