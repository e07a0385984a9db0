"""Runs in forked processes: the same bytes as in a new interpreter, and no run is lost with the process that forks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.sweep.sweeps import Eyes, Killer, toys
from tests.training.runs import products

from pamd.runs import read_progress
from pamd.runs.status import read_status
from pamd.sweep import BACKENDS, Job, Resources, Sweep, Tracked
from pamd.sweep.forks import ForkServer
from pamd.sweep.worker import Worker, environment
from pamd.training import train

LOCAL = Resources(workers=1, threads=1)
DEADLINE = 300.0
OWN_CLOCK = {"status.json", "timing.jsonl"}
"""Files that contain times and process numbers."""


def sweep(jobs: Sequence[Job], eyes: Eyes) -> list[Tracked]:
    return Sweep(jobs, lambda: BACKENDS.get("local")(LOCAL), eyes).run()


def pid_of(run: Path) -> int:
    return int(json.loads((run / "status.json").read_text())["pid"])


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Parents:
    """Notes the parent of the process of each run, and its command."""

    def __init__(self) -> None:
        self.parents: dict[str, int] = {}
        self.commands: dict[str, str] = {}

    def __call__(self, runs: Sequence[Tracked]) -> None:
        for run in runs:
            if read_progress(run.job.path).state == "running" and run.job.name not in self.parents:
                try:
                    pid = pid_of(run.job.path)
                    command = Path(f"/proc/{pid}/cmdline").read_text()
                    self.parents[run.job.name], self.commands[run.job.name] = parent(pid), command
                except (FileNotFoundError, ProcessLookupError):
                    pass


def files(run: Path) -> dict[str, bytes]:
    paths = (path for path in run.rglob("*") if path.is_file() and path.name not in OWN_CLOCK)
    return {str(path.relative_to(run)): path.read_bytes() for path in paths if "checkpoints" not in path.parts}


def test_runs_of_one_server_have_the_bytes_of_new_interpreters(tmp_path: Path) -> None:
    jobs = toys(tmp_path / "swept", [0, 1, 2], decisions=80)
    eyes = Eyes(parents := Parents())
    assert [run.state for run in sweep(jobs, eyes)] == ["finished"] * 3
    assert len(set(parents.parents.values())) == 1, "one process forked all runs"
    assert all("serve" in command for command in parents.commands.values())
    for index, job in enumerate(jobs):
        (alone,) = toys(tmp_path / "alone", [index], decisions=80)
        alone.runs.mkdir(exist_ok=True)
        worker = Worker(alone.request(), 1, tmp_path / f"files-{index}")
        worker.wait()
        assert worker.outcome().state == "finished"
        assert files(job.path) == files(alone.path)
        assert products(job.path) == products(alone.path)


def test_a_run_is_tried_again_after_the_server_was_killed(tmp_path: Path) -> None:
    class ServerKiller(Killer):
        def __call__(self, runs: Sequence[Tracked]) -> None:
            if self.killed or not any((self._victim / "checkpoints").glob("0*")):
                return
            if read_progress(self._victim).state == "running":
                self.killed.append(parent(pid_of(self._victim)))
                os.kill(self.killed[0], signal.SIGKILL)

    victim, later = toys(tmp_path / "swept", [0, 1], decisions=160)
    eyes = Eyes(killer := ServerKiller(victim.path))
    first, second = sweep([victim, later], eyes)
    assert killer.killed
    assert killer.killed[0] != os.getpid()
    assert (first.state, first.attempts, second.state) == ("finished", 2, "finished")
    assert products(victim.path) == products(train(victim.config, tmp_path / "straight"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ForkServer]:
    made = ForkServer(environment(1), tmp_path / "server")
    yield made
    made.close()


def wait_until_running(run: Path) -> None:
    deadline = time.monotonic() + DEADLINE
    while read_status(run).state != "running":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_run_writes_a_checkpoint_after_its_server_has_ended(tmp_path: Path, server: ForkServer) -> None:
    (job,) = toys(tmp_path / "runs", [0], decisions=5000)
    job.runs.mkdir()
    worker = Worker(job.request(), 1, tmp_path / "files", server)
    wait_until_running(job.path)
    pid = pid_of(job.path)
    assert parent(pid) != os.getpid()
    server.close()
    assert worker.ended
    deadline = time.monotonic() + DEADLINE
    while read_status(job.path).state == "running":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert read_status(job.path).state == "interrupted"


def test_a_run_that_is_stopped_before_it_has_started(tmp_path: Path, server: ForkServer) -> None:
    (job,) = toys(tmp_path / "runs", [0])
    job.runs.mkdir()
    worker = Worker(job.request(), 1, tmp_path / "files", server)
    worker.ask_to_end()  # The server is still importing.
    assert not worker.ended
    worker.wait()
    assert worker.outcome() == ("interrupted", "stopped before it started")
    assert not job.path.exists()


def test_a_killed_run_says_so_and_a_signal_after_the_end_does_nothing(tmp_path: Path, server: ForkServer) -> None:
    (job,) = toys(tmp_path / "runs", [0], decisions=5000)
    job.runs.mkdir()
    worker = Worker(job.request(), 1, tmp_path / "files", server)
    wait_until_running(job.path)
    worker.kill()
    assert worker.outcome() == ("died", "its process was killed by SIGKILL (out of memory?)")
    worker.ask_to_end()
    again = Worker(job.request(), 1, tmp_path / "files", server)
    again.kill()
    assert again.outcome().state == "died"


PREPARED = "from pamd.sweep.forks import _prepare; print(_prepare())"


@pytest.mark.parametrize(
    ("first", "may"),
    [
        ("", True),
        ("import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()", False),
        ("import sys, types; sys.modules['mujoco'] = types.ModuleType('mujoco')", False),
        ("import sys, pamd.sweep.worker; sys.platform = 'darwin'", False),
        ("import pamd.configuration as c; c.configure = None", False),
    ],
    ids=["imports alone", "a thread", "OpenGL", "not Linux", "an error"],
)
def test_only_a_process_without_threads_and_opengl_forks(first: str, may: bool) -> None:
    code = f"{first}\n{PREPARED}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment(1))
    assert done.stdout.strip() == str(may), done.stderr


def test_a_server_that_may_not_fork_starts_new_interpreters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(site)
    paths = [str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    (job,) = toys(tmp_path / "swept", [0], decisions=80)
    eyes = Eyes(parents := Parents())
    assert [run.state for run in sweep([job], eyes)] == ["finished"]
    assert "sys.argv" in parents.commands[job.name]
    assert parents.parents[job.name] != os.getpid()
    assert products(job.path) == products(train(job.config, tmp_path / "straight"))
