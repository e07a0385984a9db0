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
        state = str(json.loads((path / "status.json").read_text())["state"])
    except (OSError, ValueError, KeyError, TypeError):
        state = ""  # a status is what a run says of itself; its evaluations decide
    return Run(curve, config, state, tuple(notices))


def load_curve(path: Path) -> Curve:
    """The learning curve of the run in `path`."""
    return _load(path)[0]


def _load(path: Path) -> tuple[Curve, dict[str, Any], list[str]]:
    """The curve, the config, and what is odd about the logs; each file is read once, for the run may be going on."""
    config = _config(path / "config.json")
    method, distractor = config["method"], config["env"].get("distractor")
    logs = {name: _read(path / f"{name}.jsonl") for name in ("eval", "timing")}
    rows, timing = (logs[name][0] for name in ("eval", "timing"))
    _check(rows, path / "eval.jsonl")
    for number, row in enumerate(timing, start=1):
        _check_numbers(row, ("decisions", "seconds"), f"{path / 'timing.jsonl'}, line {number}")
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
        seconds=_seconds(decisions, timing),
        returns=[row["returns"] for row in rows],
        unseen=[row.get("unseen_returns", []) for row in rows],
        path=path,
    )
    return curve, config, [notice for _, notice in logs.values() if notice]


_KINDS = {
    "seed": int, "decisions": int, "env": dict, "env.task": str, "method": dict, "method.name": str,
    "method.fidelity": str, "scale": dict, "scale.name": str,
}  # fmt: skip
"""What a report reads of a config, and of which kind it must be."""


def _config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise RunError(f"{file} cannot be read: {error}") from None
    for name, kind in _KINDS.items():
        value = config
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if not isinstance(value, kind) or isinstance(value, bool):
            raise RunError(f"{file} is no config of a run: {name} is {value!r}, not {kind.__name__}")
    return dict(config)


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
        where = f"{path}, line {number}"
        _check_numbers(row, ("decisions", "frames", "updates"), where)
        for name, fewest in (("returns", 1), ("unseen_returns", 0)):
            values = row.get(name, [])
            if not isinstance(values, list) or len(values) < fewest or not all(map(_is_number, values)):
                raise RunError(f"{where}: {name} must be finite numbers, got {values!r}")
        if row["decisions"] <= before:
            raise RunError(f"{where}: decisions {row['decisions']} come after {before}")
        before = row["decisions"]


def _check_numbers(row: Any, names: Sequence[str], where: str) -> None:
    if not isinstance(row, dict):
        raise RunError(f"{where} must be a record, got {row!r}")
    for name in names:
        if not _is_number(row.get(name)):
            raise RunError(f"{where}: {name} must be a number, got {row.get(name)!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _seconds(decisions: list[int], timing: list[dict[str, Any]]) -> list[float | None]:
    if not timing:
        return [None] * len(decisions)
    at, clock = [0, *(row["decisions"] for row in timing)], [0.0, *(row["seconds"] for row in timing)]
    return [float(np.interp(step, at, clock)) if step <= at[-1] else None for step in decisions]


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
        raise RunError(f"{path} has evaluations but no config.json: what they are of is not known")
    below = [run for child in inside if depth < _DEEPEST for run in _runs_in(child, depth + 1)]
    if not below and depth == 0:
        raise RunError(f"{path} is no run directory and holds none: there is no config.json")
    yield from below


def _siblings(path: Path) -> list[str]:
    """Names beside `path`, which may not be there."""
    return [found.name for found in path.parent.glob("*") if found.name != path.name and found.is_dir()]
