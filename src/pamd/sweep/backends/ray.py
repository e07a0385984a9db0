"""Execute runs on a Ray cluster. All nodes must have access to the run directories."""

from __future__ import annotations

import importlib
import re
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from pamd.errors import ConfigError, ResourceError, install_command
from pamd.sweep.backends import BACKENDS, Backend, Resources
from pamd.sweep.job import Job, Outcome
from pamd.sweep.worker import Worker
from pamd.training.process import cores

_ANSWER = 5.0
"""The connection timeout in seconds. Ray itself would try for minutes."""

_LOOK = 0.1
"""Seconds between two looks at a worker."""


@BACKENDS.register("ray")
class Ray(Backend):
    """Executes each run as a Ray task in a new process. If a node is lost, the run resumes on another one."""

    queues = True

    def __init__(self, resources: Resources) -> None:
        # Without a limit, all runs are submitted. The cluster schedules them and may grow.
        super().__init__(resources, at_most=resources.workers)
        self._ray = _connect(resources)
        self._tasks: dict[Any, str] = {}

    @property
    def running(self) -> int:
        return len(self._tasks)

    def start(self, job: Job) -> None:
        remote = self._ray.remote(
            num_cpus=self.resources.threads,
            num_gpus=self.resources.gpus,
            max_retries=0,  # The sweep itself counts attempts, in the same way for all backends.
        )(_run_apart)
        self._tasks[remote.options(name=job.name).remote(job.request(), self.resources.threads)] = job.name

    def ended(self) -> list[tuple[str, Outcome]]:
        if not self._tasks:
            return []
        done, _ = self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        return [(self._tasks.pop(task), self._outcome(task)) for task in done]

    def ask_to_end(self) -> None:
        for task in self._tasks:
            self._ray.cancel(task)

    def close(self) -> None:
        self._ray.shutdown()

    def _outcome(self, task: Any) -> Outcome:
        errors = self._ray.exceptions
        try:
            return Outcome(*self._ray.get(task))
        except (errors.TaskCancelledError, KeyboardInterrupt):
            return Outcome("interrupted", "stopped before it started")
        except errors.RayTaskError as error:
            # A run that fails raises nothing, so the node could not start it.
            return Outcome("failed", f"a node could not run the worker: {str(error).strip().splitlines()[-1]}")
        except errors.RayError as error:
            return Outcome("died", f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")


def _run_apart(request: tuple[str, str], threads: int) -> Outcome:
    """Train a run in a process that Ray does not know. Ray would end it at once, without a checkpoint."""
    with tempfile.TemporaryDirectory(prefix="pamd-sweep-") as files:
        worker = Worker(request, threads, Path(files))
        try:
            while not worker.ended:  # A cancellation is noticed between two lines of Python, not in a long wait.
                time.sleep(_LOOK)
        except KeyboardInterrupt:
            worker.ask_to_end()
            worker.wait()
        return worker.outcome()


def _connect(resources: Resources) -> Any:
    try:
        ray: Any = importlib.import_module("ray")
    except ModuleNotFoundError:
        raise ConfigError(f"--backend ray requires Ray: {install_command('ray')}") from None
    quiet = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
    if resources.address is None:
        wanted = resources.threads * (resources.workers or 1)
        try:
            # "local": without it, Ray would join any cluster that already runs on this machine.
            ray.init(address="local", num_cpus=max(cores(), wanted), **quiet)
        except Exception as error:  # Ray raises plain exceptions, for example after 30 seconds on a busy machine.
            raise ResourceError(f"Ray could not start on this machine: {str(error).splitlines()[0]}") from None
        return ray
    _check_answers(resources.address)
    quiet.pop("include_dashboard")
    try:
        ray.init(address=resources.address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ResourceError(f"no Ray cluster at {resources.address!r}: {str(error).splitlines()[0]}") from None
    return ray


def _check_answers(address: str) -> None:
    """Raise an error if no server listens at HOST:PORT or ray://HOST:PORT."""
    if address in ("auto", "local"):
        return
    parts = re.fullmatch(r"(?:ray://)?([^:/]+|\[[0-9a-fA-F:]+\]):(\d+)", address)
    if parts is None:
        raise ConfigError(f"--address must be HOST:PORT, ray://HOST:PORT or auto, got {address!r}")
    host, port = parts[1].strip("[]"), int(parts[2])
    try:
        socket.create_connection((host, port), timeout=_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise ResourceError(
            f"no Ray cluster responds at {address} ({error}); `ray start --head` starts one, and without --address"
            " Ray uses this machine alone"
        ) from None
