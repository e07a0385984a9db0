"""Execution backends, one file each, and their interface: start runs, query finished runs, and stop."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from pamd.registry import Registry
from pamd.schema import Count, NonNegative, Positive, record
from pamd.sweep.job import Job, Outcome
from pamd.training.process import cores

__all__ = ["BACKENDS", "Backend", "Resources"]

_GRACE = 120.0
"""The grace period in seconds for final checkpoints after a stop request."""


@record(what="sweep")
class Resources:
    """The computing resources of a sweep."""

    workers: Count | None = None
    """runs at a time (default: local: cores divided by threads; ray and slurm: as many as fit)"""
    threads: Count = 1
    """CPU threads per run; another number rounds floating-point sums in another way"""
    gpus: NonNegative = 0.0
    """GPUs per run with ray or slurm; with 0.5, two runs share one"""
    address: str | None = None
    """Ray cluster: HOST:PORT, ray://HOST:PORT or auto (default: this machine alone)"""
    partition: str | None = None
    """Slurm partition (default: the cluster's)"""
    hours: Positive = 24.0
    """time limit of a Slurm job; a run that reaches it is queued again and resumes"""


class Backend(ABC):
    """Executes runs. A sweep creates its backend only when there is a run to start. Errors are raised on creation.

    A run ends with a checkpoint when it is asked to, and within ten seconds after the sweep was killed.
    """

    queues = False
    """Whether a started run may wait in a queue of the cluster before it trains."""

    def __init__(self, resources: Resources, at_most: int | None = None) -> None:
        """`at_most` is the maximum number of concurrent runs; None means no limit."""
        self.resources = resources
        self._at_most = at_most

    @staticmethod
    def concurrent(resources: Resources, runs: int) -> int:
        """Return the expected number of concurrent runs, out of `runs`."""
        return max(1, min(runs, resources.workers or cores() // resources.threads))

    @property
    @abstractmethod
    def running(self) -> int:
        """The number of runs that were started and not yet reported as ended."""

    @abstractmethod
    def start(self, job: Job) -> None:
        """Start a run without waiting for it."""

    @abstractmethod
    def ended(self) -> list[tuple[str, Outcome]]:
        """Return the names and outcomes of the jobs that ended since the last call, without waiting."""

    @abstractmethod
    def ask_to_end(self) -> None:
        """Ask all runs to write a checkpoint and stop, without waiting."""

    @property
    def free(self) -> bool:
        """Whether another run can be started."""
        return self._at_most is None or self.running < self._at_most

    def stop(self) -> list[tuple[str, Outcome]]:
        """Ask all runs to stop, and wait until they have ended or the grace period is over."""
        self.ask_to_end()
        deadline, outcomes = time.monotonic() + _GRACE, []
        while self.running and time.monotonic() < deadline:
            outcomes += self.ended()
            time.sleep(0.05)
        return outcomes

    def close(self) -> None:  # noqa: B027  Some backends have no resources.
        """Release all resources and end active runs."""


BACKENDS: Registry[type[Backend]] = Registry("sweep backend", "pamd.sweep.backends")
