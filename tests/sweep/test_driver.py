"""The sweep driver with a scripted backend."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.sweep.sweeps import Eyes, toys
from tests.training.runs import toy

from pamd.errors import RunInterrupted
from pamd.runs.status import Budget, write_status
from pamd.sweep import Backend, Job, Resources, Sweep, Tracked, jobs, plan
from pamd.sweep.job import Outcome

DIED, FINISHED, FAILED = Outcome("died", "its node burnt"), Outcome("finished"), Outcome("failed", "no such task")


class Scripted(Backend):
    """Ends each run as its script says, attempt by attempt; two at a time."""

    def __init__(self, script: dict[str, list[Outcome]], interrupt_after: int | None = None) -> None:
        super().__init__(Resources(), at_most=2)
        self.script, self.names, self.most = script, list[str](), 0
        self.started: list[str] = []
        self.asked, self.closed = False, False
        self.interrupt_after = interrupt_after

    @property
    def running(self) -> int:
        return len(self.names)

    def start(self, job: Job) -> None:
        self.names.append(job.name)
        self.started.append(job.name)
        self.most = max(self.most, len(self.names))

    def ended(self) -> list[tuple[str, Outcome]]:
        if self.asked:
            return [(self.names.pop(0), Outcome("interrupted", "asked to"))]
        if self.interrupt_after == len(self.started):
            raise KeyboardInterrupt
        name = self.names.pop(0)
        return [(name, self.script[name].pop(0))]

    def ask_to_end(self) -> None:
        self.asked = True

    def close(self) -> None:
        self.closed = True


def test_what_died_is_tried_again_and_what_failed_is_not(tmp_path: Path) -> None:
    made = toys(tmp_path, range(4))
    a, b, c, d = (job.name for job in made)
    backend = Scripted({a: [DIED, DIED, FINISHED], b: [FAILED], c: [DIED, DIED, DIED], d: [FINISHED]})
    eyes = Eyes()
    runs = {run.job.name: run for run in Sweep(made, lambda: backend, eyes, retries=2).run()}
    assert {name: (run.state, run.attempts) for name, run in runs.items()} == {
        a: ("finished", 3),
        b: ("failed", 1),
        c: ("failed", 3),
        d: ("finished", 1),
    }
    assert (runs[b].error, runs[c].error, runs[a].error) == ("no such task", "its node burnt", "")
    assert backend.most == 2
    assert backend.closed
    assert [state for name, state in eyes.heard if name == a] == ["running", "waiting"] * 2 + ["running", "finished"]


def test_ctrl_c_stops_what_runs_starts_nothing_and_says_how_to_go_on(tmp_path: Path) -> None:
    made = toys(tmp_path, range(4))
    backend = Scripted({job.name: [FINISHED] for job in made}, interrupt_after=3)
    sweep = Sweep(made, lambda: backend, Eyes())
    with pytest.raises(RunInterrupted, match="1 of 4 runs finished; rerun the same command to continue"):
        sweep.run()
    assert [run.state for run in sweep.runs.values()] == ["finished", "interrupted", "interrupted", "waiting"]
    assert backend.closed


class Cluster(Scripted):
    """Takes all runs at once, trains one at a time, and ends after a signal."""

    queues = True

    def __init__(self, number: signal.Signals | None = None) -> None:
        super().__init__({})
        self._at_most, self.number = None, number

    def ended(self) -> list[tuple[str, Outcome]]:
        if self.asked:
            return super().ended()
        if self.number and len(self.started) == 3:
            os.kill(os.getpid(), self.number)
        return []


def test_a_run_that_waits_in_a_queue_is_not_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pamd.sweep.driver._LOOK", 0.0)
    made = toys(tmp_path, range(3))
    made[1].path.mkdir()
    write_status(made[1].path, "running", Budget())  # It was killed before. This is not news.
    seen: list[list[str]] = []

    def look(runs: Sequence[Tracked]) -> None:
        seen.append([run.state for run in runs])
        if len(seen) == 1:
            made[0].path.mkdir()
            write_status(made[0].path, "running", Budget())
        elif len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(RunInterrupted):
        Sweep(made, Cluster, Eyes(look)).run()
    assert seen[0] == ["waiting", "waiting", "waiting"]
    assert seen[-1] == ["running", "waiting", "waiting"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_every_stop_signal_asks_the_runs_to_end(tmp_path: Path, number: signal.Signals) -> None:
    made, before = toys(tmp_path, range(3)), signal.getsignal(number)
    backend = Cluster(number)

    def make() -> Backend:
        signal.signal(number, signal.SIG_DFL)  # As Ray does. It would end this process.
        return backend

    sweep = Sweep(made, make, Eyes())
    with pytest.raises(RunInterrupted, match="0 of 3 runs finished"):
        sweep.run()
    assert backend.asked
    assert backend.closed
    assert {run.state for run in sweep.runs.values()} == {"interrupted"}
    assert signal.getsignal(number) == before


def test_the_same_computation_is_one_job(tmp_path: Path) -> None:
    assert len(toys(tmp_path, [0, 1, 0])) == 2


def test_nothing_left_to_do_needs_no_backend(tmp_path: Path) -> None:
    made = toys(tmp_path, [0])
    made[0].path.mkdir()
    (made[0].path / "status.json").write_text('{"state": "finished", "decisions": 60}')

    def never() -> Backend:
        raise AssertionError

    (run,) = Sweep(made, never, Eyes()).run()
    assert run.skipped


def test_a_finished_run_with_a_larger_budget_is_extended(tmp_path: Path) -> None:
    (job,) = toys(tmp_path, [0], decisions=90)
    job.path.mkdir()
    (job.path / "status.json").write_text('{"state": "finished", "decisions": 60}')
    assert plan([job], 1, 1).decisions == 30
    (run,) = Sweep([job], lambda: Scripted({job.name: [FINISHED]}), Eyes()).run()
    assert (run.skipped, run.attempts) == (False, 1)


def test_the_same_run_at_two_budgets_is_one_job_with_the_larger_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pamd.sweep.job.run_name", lambda config: f"toy_s{config.seed}")
    made = jobs([("sac", toy("sac", decisions=decisions)) for decisions in (60, 90, 70)], tmp_path)
    assert [job.config.decisions for job in made] == [90]
