"""Sweeps of small real runs, watched by a test."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.training.runs import toy

from pamd.runs import read_progress
from pamd.sweep import Job, Tracked, jobs


def toys(runs: Path, seeds: Sequence[int], decisions: int = 60, method: str = "simsr+pamd") -> list[Job]:
    return jobs([(method, toy(method, seed=seed, decisions=decisions)) for seed in seeds], runs)


class Eyes:
    """Hears everything, and may act on what it sees."""

    def __init__(self, act: Callable[[Sequence[Tracked]], None] = lambda runs: None) -> None:
        self.heard: list[tuple[str, str]] = []
        self.said: list[str] = []
        self._act = act

    def show(self, runs: Sequence[Tracked]) -> None:
        self._act(runs)

    def changed(self, run: Tracked) -> None:
        self.heard.append((run.job.name, run.state))

    def say(self, message: str) -> None:
        self.said.append(message)


class Killer:
    """Kills the process of a run once, after its first checkpoint."""

    def __init__(self, victim: Path) -> None:
        self._victim = victim
        self.killed: list[int] = []

    def __call__(self, runs: Sequence[Tracked]) -> None:
        if self.killed or not any((self._victim / "checkpoints").glob("0*")):
            return
        if read_progress(self._victim).state == "running":
            self.killed.append(json.loads((self._victim / "status.json").read_text())["pid"])
            os.kill(self.killed[0], signal.SIGKILL)
