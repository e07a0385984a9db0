"""The interface of all backends: start a run, ask which have ended, stop."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass

from pamd.config import check_positive
from pamd.errors import ConfigError
from pamd.registry import Registry
from pamd.sweep.job import Job, Outcome

__all__ = ["BACKENDS", "Backend", "Resources", "cores"]

_GRACE = 120.0
"""Seconds that runs have for their checkpoints after they are asked to end."""


@dataclass(frozen=True)
class Resources:
    """The resources of runs."""

    workers: int | None = None
    """runs at a time (default: local: one per core; ray and slurm: as many as fit)"""
    threads: int | None = None
    """CPU threads per run (default: local: cores divided by workers; ray and slurm: 2)"""
    gpus: float = 0.0
    """GPUs per run with ray or slurm; with 0.5, two runs share one"""
    address: str | None = None
    """Ray cluster: HOST:PORT, ray://HOST:PORT or auto (default: this machine alone)"""
    partition: str | None = None
    """Slurm partition (default: the cluster's)"""
    hours: float = 24.0
    """time limit of a Slurm job; a run that reaches it is queued again and resumes"""

    def __post_init__(self) -> None:
        check_positive("sweep", workers=self.workers, threads=self.threads, hours=self.hours)
        if not 0 <= self.gpus < float("inf"):
            raise ConfigError(f"sweep: gpus must be at least 0, got {self.gpus}")


class Backend(ABC):
    """Executes runs. A sweep builds it when there is a run to start, and it fails then if it cannot start runs."""

    def __init__(self, resources: Resources, at_most: int | None = None) -> None:
        """`at_most` limits the runs at a time; None: no limit."""
        self.resources = resources
        self._at_most = at_most

    @staticmethod
    @abstractmethod
    def share(resources: Resources, runs: int) -> tuple[int, int]:
        """How many of `runs` runs are executed at a time, and the threads of each."""

    @property
    @abstractmethod
    def running(self) -> int:
        """Runs that were started and have not been reported as ended."""

    @abstractmethod
    def start(self, job: Job) -> None:
        """Start a run; returns at once."""

    @abstractmethod
    def ended(self) -> list[tuple[str, Outcome]]:
        """The jobs that have ended since the last call, by name, and how they ended; returns at once."""

    @abstractmethod
    def ask_to_end(self) -> None:
        """Tell every run to write its checkpoint and end; returns at once."""

    @property
    def free(self) -> bool:
        """Whether another run can be started."""
        return self._at_most is None or self.running < self._at_most

    def stop(self) -> list[tuple[str, Outcome]]:
        """Ask every run to end, and wait until all have ended or the grace period is over."""
        self.ask_to_end()
        deadline, found = time.monotonic() + _GRACE, []
        while self.running and time.monotonic() < deadline:
            found += self.ended()
            time.sleep(0.05)
        return found

    def close(self) -> None:  # noqa: B027  Some backends hold nothing.
        """Release everything; runs that still run are ended."""


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


BACKENDS: Registry[type[Backend]] = Registry("sweep backend", "pamd.sweep.backends")
