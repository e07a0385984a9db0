"""The sweep driver. It starts runs, retries runs whose worker died, and reports the state of every run."""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pamd.errors import RunInterrupted
from pamd.runs import read_progress
from pamd.runs.status import Status, read_status
from pamd.sweep.backends import Backend
from pamd.sweep.job import Job, Outcome
from pamd.training.process import stop_signals

State = Literal["waiting", "running", "finished", "failed", "interrupted"]
_PAUSE, _LOOK = 0.1, 1.0
"""Seconds between two looks at the backend, and at the status of queued runs."""


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
        self._queued: dict[str, Status] = {}
        """The runs that wait in the queue of a cluster, and what their status was before."""
        self._look_at = 0.0

    def run(self) -> list[Tracked]:
        """Execute all jobs. After a stop signal, raises RunInterrupted when every run has written its checkpoint."""
        for run in self.runs.values():
            if read_progress(run.job.path).finished(run.job.config.decisions):
                run.skipped = True
                self._change(run, "finished")
        waiting = deque(run for run in self.runs.values() if not run.skipped)
        if waiting:
            for runs in {run.job.runs for run in waiting}:
                runs.mkdir(parents=True, exist_ok=True)
            # The backend is created late, because a finished sweep requires no cluster.
            self._drive(waiting)
        return list(self.runs.values())

    def _drive(self, waiting: deque[Tracked]) -> None:
        with stop_signals() as stop:
            backend = self._make()
            stop.install()  # Ray has installed a handler of its own, which ends the process at once.
            try:
                while (waiting or backend.running) and not stop.asked:
                    while waiting and backend.free and not stop.asked:
                        self._start(waiting.popleft(), backend)
                    for name, outcome in backend.ended():
                        self._ended(self.runs[name], outcome, waiting)
                    self._notice_started()
                    self._board.show(list(self.runs.values()))
                    time.sleep(_PAUSE)
            except KeyboardInterrupt:
                stop.asked = True
            try:
                if stop.asked and (waiting or backend.running):
                    self._stop(backend)
            finally:
                backend.close()

    def _start(self, run: Tracked, backend: Backend) -> None:
        run.attempts += 1
        if backend.queues:
            self._queued[run.job.name] = read_status(run.job.path)
        backend.start(run.job)
        if not backend.queues:
            self._change(run, "running")

    def _notice_started(self) -> None:
        """Find out which runs have left the queue of a cluster. A run writes its status when it begins to train."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK
        for name, before in list(self._queued.items()):
            status = read_status(self.runs[name].job.path)
            if status.state == "running" and status != before:
                del self._queued[name]
                self._change(self.runs[name], "running")

    def _ended(self, run: Tracked, outcome: Outcome, waiting: deque[Tracked]) -> None:
        self._queued.pop(run.job.name, None)
        if outcome.state == "died" and run.attempts <= self._retries:
            run.state, run.error = "waiting", outcome.error
            self._board.changed(run)
            waiting.appendleft(run)  # The run already has a checkpoint and a replay.
            return
        run.error = "" if outcome.state == "finished" else outcome.error
        self._change(run, "failed" if outcome.state == "died" else outcome.state)

    def _change(self, run: Tracked, state: State) -> None:
        run.state = state
        if state == "finished" and self._discard:
            shutil.rmtree(run.job.path / "replay", ignore_errors=True)
        self._board.changed(run)

    def _stop(self, backend: Backend) -> None:
        self._board.say("stopping: active runs are writing checkpoints; press Ctrl-C again to stop immediately")
        try:
            for name, outcome in backend.stop():
                self._change(self.runs[name], "failed" if outcome.state == "died" else outcome.state)
        except KeyboardInterrupt:
            pass  # After a second Ctrl-C, the last checkpoints are older but complete.
        done = sum(run.state == "finished" for run in self.runs.values())
        words = f"stopped with {done} of {len(self.runs)} runs finished"
        raise RunInterrupted(f"{words}; rerun the same command to continue")
