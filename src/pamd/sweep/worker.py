"""The process of one run. It writes a checkpoint and ends soon after the process that started it has ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pamd import atomic_io
from pamd.sweep.forks import WORKER, Fork, ForkServer
from pamd.sweep.job import Outcome, run_job

_SUPERVISOR = """
import os, signal, subprocess, sys, time
parent, *words = sys.argv[1:]
process, asked = subprocess.Popen([*words, str(os.getpid())]), []
signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
while process.poll() is None:
    if asked or os.getppid() != int(parent):
        process.terminate()
        process.wait()
    time.sleep(0.1)
code = process.returncode
sys.exit(code if code >= 0 else 128 - code)
"""
"""Starts a worker, waits for it, and asks it to end when the parent process has ended. It imports nothing large."""
_LOOK = 0.5
"""Seconds between two looks at the parent process."""


class Worker:
    """Trains a run in its own process, which `server` forks.

    Without a server, a new interpreter trains it, and a small process stands between this one and the worker. Ray kills
    the children of its processes at once, but not the children of these, so that the worker has the time to write its
    checkpoint.
    """

    def __init__(self, request: tuple[str, str], threads: int, files: Path, server: ForkServer | None = None) -> None:
        files.mkdir(exist_ok=True)
        self._result, self._errors = files / "result", files / "errors"
        (files / "request").write_text(json.dumps(request))
        self._result.unlink(missing_ok=True)
        self._errors.write_bytes(b"")
        self._asked = False
        self._process: Fork | subprocess.Popen[bytes]
        if server is not None:
            self._process = server.start(files.name, files / "request", self._result, self._errors)
            return
        words = [sys.executable, "-c", WORKER, str(files / "request"), str(self._result)]
        with self._errors.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SUPERVISOR, str(os.getpid()), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(threads),
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def ask_to_end(self) -> None:
        """Ask the run to write a checkpoint and stop, without waiting."""
        self._asked = True
        self._process.terminate()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()

    def wait(self) -> None:
        self._process.wait()

    def outcome(self) -> Outcome:
        """Return the outcome of a worker that has ended."""
        code = self._process.returncode
        assert code is not None
        number = -code if code < 0 else code - 128 if code > 128 else None
        try:
            outcome = Outcome(*json.loads(self._result.read_text()))
        except (OSError, ValueError):
            outcome = None
        if outcome is None and number == signal.SIGTERM:
            outcome = Outcome("interrupted", "stopped before it started")
        if outcome is not None and outcome.state == "interrupted" and not self._asked:
            return Outcome("died", "its process received a stop signal from elsewhere")
        if outcome is not None:
            return outcome
        how = f"was killed by {signal.Signals(number).name}" if number else f"ended with exit code {code}"
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        memory = " (out of memory?)" if number == signal.SIGKILL else ""
        return Outcome("died", f"its process {how}{memory}" + (f": {lines[-1]}" if lines else ""))


def environment(threads: int) -> dict[str, str]:
    """Return the environment variables of a worker."""
    return {**os.environ, "OMP_NUM_THREADS": str(threads)}


def work(request: str, result: str, parent: str) -> None:
    """Execute one run in a process of its own: read the request, train, and write the outcome."""
    keep_priority()
    stop_unless(lambda: os.getppid() == int(parent))
    outcome = run_job(*json.loads(Path(request).read_text()))
    # If the sweep has ended, its temporary files are gone. The run directory contains everything.
    with contextlib.suppress(FileNotFoundError):
        atomic_io.replace(Path(result), json.dumps(outcome).encode())


def keep_priority() -> None:
    """Give the session of this process the niceness of the process.

    Linux divides processor time between sessions first, and `nice` counts only within one. A worker has its own
    session, so without this `nice pamd sweep` would take as much time from other programs as `pamd sweep`.
    """
    with contextlib.suppress(OSError):  # Other systems do not have the file.
        Path("/proc/self/autogroup").write_text(str(os.nice(0)))


def stop_unless(alive: Callable[[], bool]) -> None:
    """Send this process SIGTERM as soon as `alive()` is False, so that its run writes a checkpoint and stops."""

    def look() -> None:
        while alive():
            time.sleep(_LOOK)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=look, daemon=True).start()
