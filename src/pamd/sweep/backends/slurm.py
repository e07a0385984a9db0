"""Execute runs on Slurm with submitit, one job per run. A job that reaches its time limit is requeued and resumes."""

from __future__ import annotations

import importlib
import shutil
from typing import Any

from pamd.errors import ConfigError, ResourceError, install_command
from pamd.sweep.backends import BACKENDS, Backend, Resources
from pamd.sweep.job import Job, Outcome, run_job


class _Task:
    """Wraps `run_job` for submitit and handles the time limit."""

    def __call__(self, config: str, runs: str) -> Outcome:
        return run_job(config, runs)

    def checkpoint(self, config: str, runs: str) -> Any:
        """Requeue the job before Slurm ends it. The run resumes from its own checkpoint."""
        return importlib.import_module("submitit").helpers.DelayedSubmission(self, config, runs)


@BACKENDS.register("slurm")
class Slurm(Backend):
    """Executes each run as a job on a Slurm cluster."""

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

    @staticmethod
    def share(resources: Resources, runs: int) -> tuple[int, int]:
        return min(runs, resources.workers or runs), resources.threads or 2

    @property
    def running(self) -> int:
        return len(self._jobs)

    def start(self, job: Job) -> None:
        executor = self._submitit.AutoExecutor(folder=job.runs / ".slurm" / "%j", cluster=self.cluster)
        executor.update_parameters(
            name=job.name,
            timeout_min=max(1, int(60 * self.resources.hours)),
            cpus_per_task=job.config.runtime.threads or 2,
            gpus_per_node=int(self.resources.gpus),
            **({} if self.resources.partition is None else {"slurm_partition": self.resources.partition}),
        )
        self._jobs[job.name] = executor.submit(_Task(), *job.request())

    def ended(self) -> list[tuple[str, Outcome]]:
        gone = [name for name, job in self._jobs.items() if job.done()]
        return [(name, self._outcome(self._jobs.pop(name))) for name in gone]

    def ask_to_end(self) -> None:
        self._canceled = True
        for job in self._jobs.values():
            job.cancel(check=False)

    def _outcome(self, job: Any) -> Outcome:
        try:
            return Outcome(*job.result())
        except self._submitit.core.utils.FailedJobError as error:
            return Outcome("failed", f"the job could not run the worker: {str(error).strip().splitlines()[-1]}")
        except self._submitit.core.utils.UncompletedJobError as error:
            if self._canceled:
                return Outcome("interrupted", "canceled")
            return Outcome("died", str(error).strip().splitlines()[0])
