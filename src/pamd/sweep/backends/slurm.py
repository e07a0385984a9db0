"""Execute runs on Slurm with submitit, one job per run. A job that reaches its time limit is requeued and resumes."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import shutil
import signal
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pamd.errors import ConfigError, ResourceError, install_command
from pamd.sweep.backends import BACKENDS, Backend, Resources
from pamd.sweep.job import Job, Outcome, run_job
from pamd.sweep.worker import stop_unless

_BEAT = 1.0
"""Seconds between two heartbeats of a sweep, which its jobs read from the shared storage."""
_MISSED = 12
"""A job stops after reading the same heartbeat this many times, every half second. If the storage stalls, so do the
reads, and the run goes on."""


class _Task:
    """Wraps `run_job` for submitit and handles the time limit and the end of the sweep."""

    def __call__(self, config: str, runs: str, heartbeat: str) -> Outcome:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Submitit ignores it. A run handles it when it has begun.
        stop_unless(_beats(Path(heartbeat)))
        return run_job(config, runs)

    def checkpoint(self, config: str, runs: str, heartbeat: str) -> Any:
        """Requeue the job before Slurm ends it. The run resumes from its own checkpoint."""
        return importlib.import_module("submitit").helpers.DelayedSubmission(self, config, runs, heartbeat)


def _beats(heartbeat: Path) -> Callable[[], bool]:
    """Return a function that reads the heartbeat and returns whether it changed during the last readings."""
    last, same = "", 0

    def alive() -> bool:
        nonlocal last, same
        try:
            now = heartbeat.read_text()
        except FileNotFoundError:
            now = last
        except OSError:
            return True  # The storage fails, not the sweep.
        last, same = now, same + 1 if now == last else 0
        return same < _MISSED

    return alive


@BACKENDS.register("slurm")
class Slurm(Backend):
    """Executes each run as a job on a Slurm cluster."""

    queues = True
    cluster: str | None = None
    """None uses Slurm. Tests set submitit's "local", which runs the same jobs on this machine."""

    def __init__(self, resources: Resources) -> None:
        super().__init__(resources, at_most=resources.workers)
        if resources.gpus % 1:
            raise ConfigError(f"--backend slurm requires a whole number of GPUs per run, got {resources.gpus}")
        try:
            self._submitit: Any = importlib.import_module("submitit")
        except ModuleNotFoundError:
            raise ConfigError(f"--backend slurm requires submitit: {install_command('slurm')}") from None
        if self.cluster is None and shutil.which("srun") is None:
            raise ResourceError("--backend slurm requires Slurm, but `srun` was not found on this machine")
        self._jobs: dict[str, Any] = {}
        self._canceled = False
        self._heartbeats: set[Path] = set()
        self._name, self._closed = uuid.uuid4().hex, threading.Event()
        threading.Thread(target=self._beat, daemon=True).start()

    @staticmethod
    def concurrent(resources: Resources, runs: int) -> int:
        return min(runs, resources.workers or runs)

    def _beat(self) -> None:
        for number in itertools.count():
            for heartbeat in list(self._heartbeats):
                with contextlib.suppress(OSError):
                    heartbeat.write_text(str(number))
            if self._closed.wait(_BEAT):
                return

    @property
    def running(self) -> int:
        return len(self._jobs)

    def start(self, job: Job) -> None:
        heartbeat = job.runs / ".slurm" / f"sweep-{self._name}"
        heartbeat.parent.mkdir(exist_ok=True)
        self._heartbeats.add(heartbeat)
        executor = self._submitit.AutoExecutor(folder=job.runs / ".slurm" / "%j", cluster=self.cluster)
        executor.update_parameters(
            name=job.name,
            timeout_min=max(1, int(60 * self.resources.hours)),
            cpus_per_task=self.resources.threads,
            gpus_per_node=int(self.resources.gpus),
            **({} if self.resources.partition is None else {"slurm_partition": self.resources.partition}),
        )
        self._jobs[job.name] = executor.submit(_Task(), *job.request(), str(heartbeat))

    def ended(self) -> list[tuple[str, Outcome]]:
        gone = [name for name, job in self._jobs.items() if job.done()]
        return [(name, self._outcome(self._jobs.pop(name))) for name in gone]

    def ask_to_end(self) -> None:
        self._canceled = True
        for job in self._jobs.values():
            job.cancel(check=False)

    def close(self) -> None:
        self._closed.set()
        for heartbeat in self._heartbeats:
            heartbeat.unlink(missing_ok=True)

    def _outcome(self, job: Any) -> Outcome:
        try:
            outcome = Outcome(*job.result())
            if outcome.state == "interrupted" and not self._canceled:
                return Outcome("died", "its job received a stop signal from elsewhere")
            return outcome
        except self._submitit.core.utils.FailedJobError as error:
            return Outcome("failed", f"the job could not run the worker: {str(error).strip().splitlines()[-1]}")
        except self._submitit.core.utils.UncompletedJobError as error:
            if self._canceled:
                return Outcome("interrupted", "canceled")
            return Outcome("died", str(error).strip().splitlines()[0])
