"""The sweep driver. It starts runs, retries runs whose worker died, and reports the state of every run."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

from pamd.errors import RunInterrupted
from pamd.runs import read_progress
from pamd.sweep.backends import Backend
from pamd.sweep.job import Job, Outcome

State = Literal["waiting", "running", "finished", "failed", "interrupted"]
_PAUSE = 0.1


@dataclass
class Tracked:
    """A job and its state."""

    job: Job
    state: State = "waiting"
    attempts: int = 0
    error: str = ""
    skipped: bool = False
    """The run was finished before the sweep started."""


class Board(Protocol):
    """The display of a sweep: a live table or plain lines."""

    def show(self, runs: Sequence[Tracked]) -> None:
        """Called frequently. The board decides when to read files."""

    def changed(self, run: Tracked) -> None:
        """Called when the state of a run changes or the run is retried."""

    def say(self, message: str) -> None:
        """Show a message."""


class Sweep:
    """Executes jobs in order on one backend."""

    def __init__(
        self,
        jobs: Sequence[Job],
        backend: Callable[[], Backend],
        board: Board,
        *,
        retries: int = 2,
        discard_replay: bool = False,
    ) -> None:
        self._make, self._board, self._retries, self._discard = backend, board, retries, discard_replay
        self.runs = {job.name: Tracked(job) for job in jobs}

    def run(self) -> list[Tracked]:
        """Execute all jobs. After Ctrl-C, raises RunInterrupted when every run has written its checkpoint."""
        for run in self.runs.values():
            if read_progress(run.job.path).finished(run.job.config.decisions):
                run.skipped = True
                self._settle(run, "finished")
        waiting = deque(run for run in self.runs.values() if not run.skipped)
        if waiting:
            for runs in {run.job.runs for run in waiting}:
                runs.mkdir(parents=True, exist_ok=True)
            # The backend is created late, because a finished sweep requires no cluster.
            self._drive(waiting)
        return list(self.runs.values())

    def _drive(self, waiting: deque[Tracked]) -> None:
        with _termination_as_interrupt():
            backend = self._make()
            try:
                while waiting or any(run.state == "running" for run in self.runs.values()):
                    while waiting and backend.free:
                        self._start(waiting.popleft(), backend)
                    for name, outcome in backend.ended():
                        self._ended(self.runs[name], outcome, waiting)
                    self._board.show(list(self.runs.values()))
                    time.sleep(_PAUSE)
            except KeyboardInterrupt:
                self._board.say("stopping: active runs are writing checkpoints; press Ctrl-C again to stop immediately")
                self._stop(backend)
            finally:
                backend.close()

    def _start(self, run: Tracked, backend: Backend) -> None:
        run.state, run.attempts = "running", run.attempts + 1
        backend.start(run.job)
        self._board.changed(run)

    def _ended(self, run: Tracked, outcome: Outcome, waiting: deque[Tracked]) -> None:
        if outcome.state == "died" and run.attempts <= self._retries:
            run.state, run.error = "waiting", outcome.error
            self._board.changed(run)
            waiting.appendleft(run)  # The run already has a checkpoint and a replay.
            return
        run.error = "" if outcome.state == "finished" else outcome.error
        self._settle(run, "failed" if outcome.state == "died" else outcome.state)

    def _settle(self, run: Tracked, state: State) -> None:
        run.state = state
        if state == "finished" and self._discard:
            shutil.rmtree(run.job.path / "replay", ignore_errors=True)
        self._board.changed(run)

    def _stop(self, backend: Backend) -> None:
        try:
            for name, outcome in backend.stop():
                self._settle(self.runs[name], "failed" if outcome.state == "died" else outcome.state)
        except KeyboardInterrupt:
            pass  # After a second Ctrl-C, the last checkpoints are older but complete.
        done = sum(run.state == "finished" for run in self.runs.values())
        words = f"stopped with {done} of {len(self.runs)} runs finished"
        raise RunInterrupted(f"{words}; rerun the same command to continue")


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM, which batch systems send, like Ctrl-C."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
