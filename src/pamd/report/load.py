"""What runs wrote about themselves. A file that cannot be read is an error; what is only unfinished is said."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pamd.errors import RunError, nearest
from pamd.report.differences import canonical

__all__ = ["Curve", "Run", "load_curve", "load_run", "load_runs", "read_rows"]

_DEEPEST = 4
"""How far below a given directory runs are looked for."""


@dataclass(frozen=True)
class Curve:
    """The evaluations of one run, N of them."""

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
    """[N][episodes]: the same before clips that training never shows; [] where an evaluation has none."""
    path: Path


@dataclass(frozen=True)
class Run:
    """A run as its directory has it: nothing is dropped, and `notices` say what is odd."""

    curve: Curve
    config: dict[str, Any]
    state: str
    """finished, running, interrupted or failed, as the run said; "" where it said nothing."""
    notices: tuple[str, ...]

    @property
    def path(self) -> Path:
        return self.curve.path

    @property
    def seed(self) -> int:
        return self.curve.seed

    @property
    def budget(self) -> int:
        """The decisions it was meant to take."""
        return int(self.config["decisions"])

    @property
    def evaluated(self) -> int:
        """The decisions of its last evaluation; -1 before the first."""
        return self.curve.decisions[-1] if self.curve.decisions else -1

    @property
    def finished(self) -> bool:
        """Whether it was evaluated at the end of its budget: only then it has a score."""
        return self.evaluated >= self.budget

    @property
    def score(self) -> float:
        """The mean return of its last evaluation."""
        return float(np.mean(self.curve.returns[-1]))

    @property
    def unseen_score(self) -> float | None:
        """The same before clips that training never shows; None where there are none."""
        return float(np.mean(self.curve.unseen[-1])) if self.curve.unseen[-1] else None


def load_runs(paths: Sequence[Path]) -> list[Run]:
    """Every run in `paths`: run directories, and directories with runs below them.

    The same directory given twice counts once; two directories with one name or one config are an error.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        for place in _runs_in(Path(path)):
            found.setdefault(place.resolve(), place)
    runs = [load_run(path) for path in found.values()]
    seen: dict[str, Path] = {}
    for run in runs:
        science = {key: value for key, value in run.config.items() if key != "runtime"}
        for what, key in (("name", run.path.resolve().name), ("config", canonical(science))):
            if key in seen:
                raise RunError(f"{seen[key]} and {run.path} have the same {what}: one run must not count twice")
            seen[key] = run.path
    return runs


def load_run(path: Path) -> Run:
    """The run in `path`, whatever its state."""
    curve, config, notices = _load(path)
    try:
        _ = int(config["decisions"]), dict(config["env"]), dict(config["method"]), str(config["scale"]["name"])
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is no readable run: config.json: {type(error).__name__}: {error}") from None
    try:
        state = str(json.loads((path / "status.json").read_text())["state"])
    except (OSError, ValueError, KeyError, TypeError):
        state = ""  # a status is what a run says of itself; its evaluations decide
    return Run(curve, config, state, tuple(notices))


def load_curve(path: Path) -> Curve:
    """The learning curve of the run in `path`."""
    return _load(path)[0]


def _load(path: Path) -> tuple[Curve, dict[str, Any], list[str]]:
    """The curve, the config, and what is odd about the logs; each file is read once, for the run may be going on."""
    try:
        config = json.loads((path / "config.json").read_text())
        method = config["method"]
        distractor = config["env"].get("distractor")
        logs = {name: _read(path / f"{name}.jsonl") for name in ("eval", "timing")}
        rows = logs["eval"][0]
        _check(rows, path / "eval.jsonl")
        decisions = [row["decisions"] for row in rows]
        curve = Curve(
            # A task before another background is another task: the two must never share a curve.
            task=config["env"]["task"] + (f" + {distractor['name']}" if distractor else ""),
            method=method["name"],
            fidelity=method["fidelity"],
            seed=config["seed"],
            decisions=decisions,
            frames=[row["frames"] for row in rows],
            updates=[row["updates"] for row in rows],
            seconds=_seconds(decisions, logs["timing"][0]),
            returns=[row["returns"] for row in rows],
            unseen=[row.get("unseen_returns", []) for row in rows],
            path=path,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is no readable run: {type(error).__name__}: {error}") from None
    return curve, config, [notice for _, notice in logs.values() if notice]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON-lines file; a last line that is still being written is left out."""
    return _read(path)[0]


def _read(path: Path) -> tuple[list[dict[str, Any]], str]:
    """The rows, and a notice where the last line is half written; any other damage is an error."""
    if not path.is_file():
        return [], ""
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error}") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise RunError(f"{path}, line {number} is damaged: {error}") from None
    return rows, f"{path.name}: the last line is half written and left out" if rest else ""


def _check(rows: list[dict[str, Any]], path: Path) -> None:
    """RunError where a row is not an evaluation, or rows are out of order."""
    before = -1
    for number, row in enumerate(rows, start=1):
        returns = row["returns"]
        if not returns or not all(math.isfinite(value) for value in returns):
            raise RunError(f"{path}, line {number}: returns must be finite numbers, got {returns!r}")
        if row["decisions"] <= before:
            raise RunError(f"{path}, line {number}: decisions {row['decisions']} come after {before}")
        before = row["decisions"]


def _seconds(decisions: list[int], timing: list[dict[str, Any]]) -> list[float | None]:
    if not timing:
        return [None] * len(decisions)
    at, clock = [0, *(row["decisions"] for row in timing)], [0.0, *(row["seconds"] for row in timing)]
    return [float(np.interp(step, at, clock)) if step <= at[-1] else None for step in decisions]


def _runs_in(path: Path, depth: int = 0) -> Iterator[Path]:
    """Run directories at or below `path`; RunError where the given path has none."""
    if (path / "config.json").is_file():
        yield path
        return
    try:
        inside = sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith("."))
    except OSError as error:
        hint = nearest(path.name, [p.name for p in path.parent.glob("*")]) if path.parent.is_dir() else None
        raise RunError(f"{path} cannot be read: {error.strerror}" + (f"; near: {hint}" if hint else "")) from None
    if (path / "eval.jsonl").exists():
        raise RunError(f"{path} has evaluations but no config.json: what they are of is not known")
    below = [run for child in inside if depth < _DEEPEST for run in _runs_in(child, depth + 1)]
    if not below and depth == 0:
        raise RunError(f"{path} is no run directory and holds none: there is no config.json")
    yield from below
