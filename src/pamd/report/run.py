"""Runs for a report: config, state and evaluations. An unreadable run is an error; an unfinished one is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pamd.errors import RunError
from pamd.report.config import canonical, method_name, parse_config, task_name
from pamd.runs import Unreadable, find_runs, read_record
from pamd.runs.files import printable
from pamd.runs.identity import tree_identity
from pamd.runs.logs import Row, read_warnings


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
    """[N] wall time, interpolated between 0 and the rows of timing.jsonl; None after the last row."""
    returns: list[list[float]]
    """[N][episodes]"""
    unseen: list[list[float]]
    """[N][episodes] with unseen backgrounds or noise; [] if an evaluation has none."""
    elsewhere: list[dict[str, list[float]]]
    """[N] background -> [episodes] of the further evaluations (--evaluate-on)."""
    path: Path
    successes: list[list[bool]] = field(default_factory=list)
    """[N][episodes]: whether an episode had success in one of its steps; [] if the task does not report it."""

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """The mean return of each evaluation, [N]."""
        if len({len(returns) for returns in self.returns}) == 1:
            return np.asarray(np.array(self.returns, dtype=np.float64).mean(axis=1))
        return np.array([np.mean(returns) for returns in self.returns])


@dataclass(frozen=True)
class Run:
    """A run as stored in its directory."""

    curve: Curve
    config: dict[str, Any]
    """The config in the current layout."""
    state: str
    """The state that the run recorded: finished, running, interrupted or failed; "" if unknown."""
    time: float | None
    """The Unix time of the last status update; None if unknown."""
    notices: tuple[str, ...]
    """Notices about the files of the run for the reader of the report."""
    config_text: str
    """The text of config.json."""
    verified: str
    """The evidence that config and logs, or the config alone, were not edited; "" if there is none."""

    @property
    def path(self) -> Path:
        return self.curve.path

    @cached_property
    def warnings(self) -> dict[str, str]:
        """The first warning of each kind during training. Only a page reads the logs for them."""
        return read_warnings(self.path)

    @cached_property
    def directory(self) -> str:
        """The name of the run directory."""
        return self.path.resolve().name

    @property
    def name(self) -> str:
        """The printable name of the run directory."""
        return str(printable(self.directory))

    @property
    def label(self) -> str:
        """The label that the run was given; "" if there is none."""
        runtime = self.config.get("runtime")
        label = runtime.get("label") if isinstance(runtime, dict) else None
        return label if isinstance(label, str) else ""

    @property
    def seed(self) -> int:
        return self.curve.seed

    @property
    def scale(self) -> str:
        return str(self.config["scale"])

    @property
    def budget(self) -> int:
        """The budget in decisions."""
        return int(self.config["decisions"])

    @property
    def evaluated(self) -> int:
        """The number of decisions at the last evaluation; -1 before the first."""
        return self.curve.decisions[-1] if self.curve.decisions else -1

    @property
    def finished(self) -> bool:
        """Whether the run was evaluated at the end of its budget. Only a finished run has a score."""
        return self.evaluated >= self.budget

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The settings of the config that determine the computation."""
        return tree_identity(self.config)

    @cached_property
    def score(self) -> float:
        """The mean return of the last evaluation."""
        return float(self.curve.means[-1])

    @property
    def unseen_score(self) -> float | None:
        """The mean return of the last evaluation with unseen backgrounds or noise; None if there are none."""
        return float(np.mean(self.curve.unseen[-1])) if self.curve.unseen[-1] else None

    @property
    def elsewhere_scores(self) -> dict[str, float]:
        """The mean return of the last evaluation on each background of `--evaluate-on`."""
        return {name: float(np.mean(returns)) for name, returns in self.curve.elsewhere[-1].items()}

    @property
    def progress(self) -> str:
        """The state and progress of an unfinished run."""
        state = "unfinished" if self.state in ("", "finished") else self.state
        return f"{state} at {max(self.evaluated, 0):,} of {self.budget:,} decisions"


class Loaded(NamedTuple):
    """The readable runs and unreadable directories of a report."""

    runs: list[Run]
    unreadable: list[Unreadable]


def load_runs(paths: Sequence[Path]) -> list[Run]:
    """Load all runs in `paths`. Raises RunError if one cannot be read."""
    runs, unreadable = read_runs(paths)
    if unreadable:
        raise RunError(unreadable[0].reason)
    return runs


def read_runs(paths: Sequence[Path]) -> Loaded:
    """Load all runs in `paths`, which are run directories or directories that contain runs.

    A directory that is given twice counts once. A directory with the same name or config as an earlier one is listed as
    unreadable.
    """
    directories: dict[Path, Path | Unreadable] = {}
    for path in paths:
        for one in find_runs(Path(path)):
            directories.setdefault((one.path if isinstance(one, Unreadable) else one).resolve(), one)
    loaded, seen = Loaded([], []), dict[str, Path]()
    for directory in directories.values():
        if isinstance(directory, Unreadable):
            loaded.unreadable.append(directory)
            continue
        try:
            run = load_run(directory)
            _check_new(run, seen)
        except RunError as error:
            loaded.unreadable.append(Unreadable(directory, str(error)))
        else:
            loaded.runs.append(run)
    return loaded


def load_run(path: Path) -> Run:
    """Load the run in `path`, finished or not. Raises RunError if it cannot be read."""
    record = read_record(path)
    config = parse_config(record.config, str(record.path / "config.json"))
    curve = _curve(record.path, config, record.evaluations, record.timing)
    status = record.status
    return Run(curve, config, status.known_state, status.time, record.notices, record.config_text, record.verified)


def _check_new(run: Run, seen: dict[str, Path]) -> None:
    """Raise RunError if a run with the same name or config was already loaded."""
    keys = {"name": run.directory, "config": canonical(run.identity)}
    for what, key in keys.items():
        if key in seen:
            raise RunError(f"{seen[key]} and {run.path} have the same {what}: one run must not count twice")
    seen.update(dict.fromkeys(keys.values(), run.path))


def _curve(path: Path, config: Mapping[str, Any], rows: Sequence[Row], timing: Sequence[Row]) -> Curve:
    decisions = [row["decisions"] for row in rows]
    return Curve(
        task=task_name(config),
        method=method_name(config),
        fidelity=config["method"]["fidelity"],
        seed=config["seed"],
        decisions=decisions,
        frames=[row["frames"] for row in rows],
        updates=[row["updates"] for row in rows],
        seconds=_seconds(decisions, timing),
        returns=[row["returns"] for row in rows],
        successes=[row.get("successes", []) for row in rows],
        unseen=[row.get("unseen_returns", []) for row in rows],
        elsewhere=[
            {str(printable(name)): other["returns"] for name, other in row.get("elsewhere", {}).items()} for row in rows
        ],
        path=path,
    )


def _seconds(decisions: Sequence[int], timing: Sequence[Row]) -> list[float | None]:
    if not timing:
        return [None] * len(decisions)
    at, clock = [0, *(row["decisions"] for row in timing)], [0.0, *(row["seconds"] for row in timing)]
    found = np.interp(decisions, at, clock).tolist()
    return [second if step <= at[-1] else None for step, second in zip(decisions, found, strict=True)]
