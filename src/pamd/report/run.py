"""What a report knows of a run: its config, its state and its evaluations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pamd.report.text import printable

__all__ = ["Curve", "Run", "Unreadable", "display_name", "task_name"]


@dataclass(frozen=True)
class Unreadable:
    """A directory that a report leaves out, and why."""

    path: Path
    reason: str

    @property
    def name(self) -> str:
        """The name of the directory, printable."""
        return str(printable(self.path.name))


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
    """[N][episodes] with backgrounds or noise that training never shows; [] where an evaluation has none."""
    path: Path


@dataclass(frozen=True)
class Run:
    """A run as its directory has it. Nothing is dropped."""

    curve: Curve
    config: dict[str, Any]
    """In the present layout."""
    state: str
    """finished, running, interrupted or failed, as the run wrote; "" if it wrote nothing."""
    time: float | None
    """When the run last wrote its status, in seconds of Unix time; None if it did not."""
    notices: tuple[str, ...]
    """What a reader of the report should know about its files."""
    config_text: str
    """config.json as it was read."""
    verified: str
    """What confirms that config.json was not edited; "" if nothing does."""

    @property
    def path(self) -> Path:
        return self.curve.path

    @property
    def name(self) -> str:
        """The name of its directory, printable."""
        return str(printable(self.path.resolve().name))

    @property
    def current(self) -> bool:
        """Whether this version can train its config, which is not so with an earlier layout."""
        return "layout" in json.loads(self.config_text)

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
        """The mean return with unseen backgrounds or noise; None if there are none."""
        return float(np.mean(self.curve.unseen[-1])) if self.curve.unseen[-1] else None

    @property
    def progress(self) -> str:
        """Why the run has no score yet: its state, and how far it is."""
        state = "unfinished" if self.state in ("", "finished") else self.state
        return f"{state} at {max(self.evaluated, 0):,} of {self.budget:,} decisions"


def task_name(config: Mapping[str, Any]) -> str:
    """The task with its background or noise: with another one it is another task."""
    env = config["env"]
    if background := env.get("distractor"):
        return f"{env['task']} + {background['name']}"
    noise = env.get("noise")
    return f"{env['task']} + {noise['name']} noise" if noise else str(env["task"])


def display_name(config: Mapping[str, Any]) -> str:
    """The name of what a run trains: its method, with the learner in front unless that is SAC.

    sac + none: "sac"; sac + simsr: "simsr"; drqv2 + none: "drqv2"; drqv2 + simsr: "drqv2:simsr".
    """
    learner, method = str(config["learner"]["name"]), str(config["method"]["name"])
    if method == "none":
        return learner
    return method if learner == "sac" else f"{learner}:{method}"
