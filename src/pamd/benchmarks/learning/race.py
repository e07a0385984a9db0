"""A sweep backend that stops each run as soon as its outcome is known."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from pamd.sweep import Backend, Job, Resources, Sweep, Tracked
from pamd.sweep.backends.local import Local
from pamd.sweep.job import Outcome as Ending

__all__ = ["Race", "Reports", "train_all"]

_LOOK_EVERY = 2.0
"""Seconds between two checks of the logs."""


class Race(Backend):
    """Runs local processes. A run whose job is `over` is asked to write a checkpoint and stop."""

    def __init__(self, resources: Resources, over: Callable[[Job], bool]) -> None:
        super().__init__(resources)
        self._local, self._over = Local(resources), over
        self._jobs: dict[str, Job] = {}
        self._looked = 0.0

    @staticmethod
    def share(resources: Resources, runs: int) -> tuple[int, int]:
        return Local.share(resources, runs)

    @property
    def running(self) -> int:
        return self._local.running

    @property
    def free(self) -> bool:
        return self._local.free

    def start(self, job: Job) -> None:
        self._jobs[job.name] = job
        self._local.start(job)

    def ended(self) -> list[tuple[str, Ending]]:
        if time.monotonic() - self._looked > _LOOK_EVERY:
            self._looked = time.monotonic()
            for name in [name for name, job in self._jobs.items() if self._over(job)]:
                self._jobs.pop(name)
                self._local.ask_one(name)
        ended = self._local.ended()
        for name, _ in ended:
            self._jobs.pop(name, None)
        return ended

    def ask_to_end(self) -> None:
        self._local.ask_to_end()

    def close(self) -> None:
        self._local.close()


class Reports:
    """Writes one line to stderr when a run starts and when it ends."""

    def __init__(self, describe: Callable[[Job], str]) -> None:
        self._describe = describe

    def show(self, runs: Sequence[Tracked]) -> None:
        """Do nothing. Only starts and ends are reported."""

    def changed(self, run: Tracked) -> None:
        self.say(f"{run.job.label}: " + ("started" if run.state == "running" else self._end_of(run)))

    def say(self, message: str) -> None:
        sys.stderr.write(message + "\n")

    def _end_of(self, run: Tracked) -> str:
        # The sweep reports a run that was asked to stop as "interrupted", which is the normal end here.
        return run.error if run.state in ("failed", "waiting") else self._describe(run.job)


def train_all(
    jobs: Sequence[Job], workers: int, over: Callable[[Job], bool], describe: Callable[[Job], str]
) -> list[Tracked]:
    """Train until every job is over. Jobs that are already over are skipped."""
    left = [job for job in jobs if not over(job)]
    resources = Resources(workers=workers, threads=1)
    return Sweep(left, lambda: Race(resources, over), Reports(describe)).run()
