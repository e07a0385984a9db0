"""Run each job in a new process on this machine. Processes are spawned, because an EGL context cannot be forked."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pamd import atomic_io
from pamd.sweep.backends import BACKENDS, Backend, Resources, cores
from pamd.sweep.job import Job, Outcome, run_job

_WORKER = "import sys; from pamd.sweep.backends.local import work; work(*sys.argv[1:])"
_PR_SET_PDEATHSIG = 1
"""From Linux's prctl.h."""


@dataclass(frozen=True)
class _Worker:
    process: subprocess.Popen[bytes]
    result: Path
    errors: Path


@BACKENDS.register("local")
class Local(Backend):
    """Executes runs in processes on this machine, which share its cores."""

    def __init__(self, resources: Resources) -> None:
        super().__init__(resources, at_most=resources.workers or cores())
        self._workers: dict[str, _Worker] = {}
        self._files = tempfile.TemporaryDirectory(prefix="pamd-sweep-")

    @staticmethod
    def share(resources: Resources, runs: int) -> tuple[int, int]:
        workers = min(resources.workers or cores(), max(1, runs))
        return workers, resources.threads or max(1, cores() // workers)

    @property
    def running(self) -> int:
        return len(self._workers)

    def start(self, job: Job) -> None:
        stem = Path(self._files.name) / job.name
        request, result, errors = (stem.with_name(f"{stem.name}.{end}") for end in ("request", "result", "errors"))
        request.write_text(json.dumps(job.request()))
        result.unlink(missing_ok=True)
        threads = str(job.config.runtime.threads or cores())
        words = [sys.executable, "-c", _WORKER, str(request), str(result), str(os.getpid())]
        with errors.open("wb") as log:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": threads},
                start_new_session=True,  # Only the sweep receives Ctrl-C. It then asks each run to stop once.
            )
        self._workers[job.name] = _Worker(process, result, errors)

    def ended(self) -> list[tuple[str, Outcome]]:
        gone = [name for name, worker in self._workers.items() if worker.process.poll() is not None]
        return [(name, _outcome(self._workers.pop(name))) for name in gone]

    def ask_to_end(self) -> None:
        for name in self._workers:
            self.ask_one(name)

    def ask_one(self, name: str) -> None:
        """Ask the run of that job to write a checkpoint and stop, without waiting."""
        self._workers[name].process.terminate()

    def close(self) -> None:
        for worker in self._workers.values():
            worker.process.kill()
        for worker in self._workers.values():
            worker.process.wait()
        self._workers.clear()
        self._files.cleanup()


def _outcome(worker: _Worker) -> Outcome:
    try:
        return Outcome(*json.loads(worker.result.read_text()))
    except (OSError, ValueError):
        code = worker.process.returncode
    if code == -signal.SIGTERM:  # It was asked to stop before it started.
        return Outcome("interrupted", "stopped before it started")
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    lines = worker.errors.read_text(errors="replace").strip().splitlines()
    memory = " (out of memory?)" if code == -signal.SIGKILL else ""
    return Outcome("died", f"its process {how}{memory}" + (f": {lines[-1]}" if lines else ""))


def work(request: str, result: str, parent: str) -> None:
    """Execute one run in a process of its own: read the request, train, and write the outcome."""
    if sys.platform.startswith("linux"):
        # The kernel sends SIGTERM when the sweep dies, so that this run writes a checkpoint and stops.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # The sweep died before the call.
            sys.exit(1)
    outcome = run_job(*json.loads(Path(request).read_text()))
    # If the sweep has ended, its temporary files are gone. The run directory contains everything.
    with contextlib.suppress(FileNotFoundError):
        atomic_io.replace(Path(result), json.dumps(outcome).encode())
