"""The one interface of all backends: start a run, ask which have ended, stop."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass

from pamd.config import check_positive
from pamd.errors import ConfigError
from pamd.registry import Registry
from pamd.sweep.job import Job, Outcome

__all__ = ["BACKENDS", "Backend", "Resources", "cores"]


@dataclass(frozen=True)
class Resources:
    """What runs may take."""

    workers: int | None = None
    """Runs at a time (local: one a core; ray, slurm: as many as there is room for)."""
    threads: int | None = None
    """CPU threads of a run (local: the cores divided among the workers; else 2)."""
    gpus: float = 0.0
    """GPUs of a run, where ray or slurm hands them out (a half: two runs share one)."""
    address: str | None = None
    """Of a Ray cluster: HOST:PORT, ray://HOST:PORT or auto; none: this machine alone."""
    partition: str | None = None
    """Of Slurm."""
    hours: float = 24.0
    """After which Slurm ends a run, which is then queued again and goes on."""

    def __post_init__(self) -> None:
        check_positive("sweep", workers=self.workers, threads=self.threads, hours=self.hours)
        if not 0 <= self.gpus < float("inf"):
            raise ConfigError(f"sweep: gpus must be at least 0, got {self.gpus}")


class Backend(ABC):
    """Carries out runs. It is made when there is something to do, and fails then if it cannot do it."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources

    @staticmethod
    @abstractmethod
    def share(resources: Resources, runs: int) -> tuple[int, int]:
        """Of so many runs, how many go on at a time, and the threads of each."""

    @property
    @abstractmethod
    def free(self) -> bool:
        """Whether another run can be started."""

    @abstractmethod
    def start(self, job: Job) -> None:
        """Begin, and return at once."""

    @abstractmethod
    def ended(self) -> list[tuple[str, Outcome]]:
        """Names of the jobs that have ended since this was last asked, and how; returns at once."""

    @abstractmethod
    def stop(self) -> list[tuple[str, Outcome]]:
        """Ask every run to write its checkpoint and end, and wait until they have."""

    def close(self) -> None:  # noqa: B027  Some have nothing to give back.
        """Give everything back; whatever still runs is ended."""


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


BACKENDS: Registry[type[Backend]] = Registry("sweep backend", "pamd.sweep.backends")
