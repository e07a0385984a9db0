"""Run each job in its own process on this machine."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pamd.sweep.backends import BACKENDS, Backend, Resources
from pamd.sweep.forks import ForkServer
from pamd.sweep.job import Job, Outcome
from pamd.sweep.worker import Worker, environment


@BACKENDS.register("local")
class Local(Backend):
    """Executes runs in processes on this machine, which share its cores."""

    def __init__(self, resources: Resources) -> None:
        super().__init__(resources, at_most=self.concurrent(resources, sys.maxsize))
        self._workers: dict[str, Worker] = {}
        self._files = tempfile.TemporaryDirectory(prefix="pamd-sweep-")
        self._server: ForkServer | None = None

    @property
    def running(self) -> int:
        return len(self._workers)

    def start(self, job: Job) -> None:
        files, threads = Path(self._files.name), self.resources.threads
        if self._server is None or not self._server.alive:  # It was killed, for example for its memory.
            self._close_server()
            self._server = ForkServer(environment(threads), files / "server")
        self._workers[job.name] = Worker(job.request(), threads, files / job.name, self._server)

    def ended(self) -> list[tuple[str, Outcome]]:
        gone = [name for name, worker in self._workers.items() if worker.ended]
        return [(name, self._workers.pop(name).outcome()) for name in gone]

    def ask_to_end(self) -> None:
        for name in self._workers:
            self.ask_one(name)

    def ask_one(self, name: str) -> None:
        """Ask the run of that job to write a checkpoint and stop, without waiting."""
        self._workers[name].ask_to_end()

    def close(self) -> None:
        for worker in self._workers.values():
            worker.kill()
        self._workers.clear()
        self._close_server()
        self._files.cleanup()

    def _close_server(self) -> None:
        if self._server is not None:
            self._server.close()
