"""The data of a run for reports: config, state and evaluations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pamd.runs.files import printable

__all__ = ["Curve", "Run", "task_name"]


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
    path: Path


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
    """The evidence that config.json was not edited; "" if there is none."""

    @property
    def path(self) -> Path:
        return self.curve.path

    @property
    def name(self) -> str:
        """The printable name of the run directory."""
        return str(printable(self.path.resolve().name))

    @property
    def current(self) -> bool:
        """Whether this version can train the config. It cannot if the config has an earlier layout."""
        return "layout" in json.loads(self.config_text)

    @property
    def seed(self) -> int:
        return self.curve.seed

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

    @property
    def score(self) -> float:
        """The mean return of the last evaluation."""
        return float(np.mean(self.curve.returns[-1]))

    @property
    def unseen_score(self) -> float | None:
        """The mean return of the last evaluation with unseen backgrounds or noise; None if there are none."""
        return float(np.mean(self.curve.unseen[-1])) if self.curve.unseen[-1] else None

    @property
    def progress(self) -> str:
        """The state and progress of an unfinished run."""
        state = "unfinished" if self.state in ("", "finished") else self.state
        return f"{state} at {max(self.evaluated, 0):,} of {self.budget:,} decisions"


def task_name(config: Mapping[str, Any]) -> str:
    """Return the name of the task and its background or noise. A different background or noise is a different task."""
    env = config["env"]
    if background := env.get("distractor"):
        return f"{env['task']} + {background['name']}"
    noise = env.get("noise")
    return f"{env['task']} + {noise['name']} noise" if noise else str(env["task"])
