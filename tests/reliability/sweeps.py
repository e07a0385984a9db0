"""Sweeps whose driver and workers are interrupted again and again must end like sweeps that nothing interrupted."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tests.reliability.kills import append_row, read_rows, total_interruptions
from tests.reliability.runs import SIZES, differing, products

from pamd.errors import RunError
from pamd.runs.checkpoints import list_checkpoints
from pamd.table import Table

__all__ = ["Kind", "sweeps"]

Kind = Literal[
    "driver SIGKILL", "driver SIGTERM", "driver SIGINT", "driver SIGHUP", "worker SIGKILL", "worker SIGTERM",
    "Ray process SIGKILL",
]  # fmt: skip
_LOCAL: tuple[Kind, ...] = (
    *("driver SIGKILL", "driver SIGTERM", "driver SIGINT", "driver SIGHUP"),
    *("worker SIGKILL", "worker SIGKILL", "worker SIGTERM", "worker SIGTERM"),
)
_RAY: tuple[Kind, ...] = (*_LOCAL, "Ray process SIGKILL", "Ray process SIGKILL")
KINDS = {"local": _LOCAL, "ray": _RAY, "ray cluster": _RAY}
"""The interruptions of a backend. A sweep on "ray" starts Ray itself; a "ray cluster" is there before and after it.
Those of workers come twice, because a driver's costs a new start of everything."""

SEEDS, DECISIONS, CHECKPOINT_EVERY = (0, 1), 400, 20
_MOST = 8
"""Interruptions of one sweep. After them, it is left alone until it ends."""
_HANGS = 900.0
"""Seconds after which a command is considered hung, even on a busy machine."""
_DUMPS = ("Traceback (most recent call last)", "*** SIG", "Fatal Python error", "stack trace")


def sweeps(
    directory: Path | None, backends: Sequence[str], minutes: float, interruptions: int, first: int = 0
) -> Table:
    """Interrupt sweeps until `minutes` or `interruptions` is reached. Rows are added to sweeps.jsonl.

    Storms at the same time need directories of their own and different numbers of their `first` sweep.
    """
    log = None if directory is None else directory / "sweeps.jsonl"
    rows = read_rows(log)
    deadline = time.monotonic() + 60 * minutes
    storm = Path(tempfile.mkdtemp(prefix="pamd-sweeps-"))
    expected = _reference(storm / "reference")
    with _cluster(backends) as address:
        while time.monotonic() < deadline and total_interruptions(rows) < interruptions:
            made = {row["run"] for row in rows}
            number = next(n for n in itertools.count(first) if n not in made and _backend(n) in backends)
            row = _Storm(number, storm / f"{number}", address).run(expected, deadline)
            rows.append(row)
            append_row(log, row)
    if not any(storm.iterdir()):
        storm.rmdir()
    return _table(rows, storm)


def _backend(number: int) -> str:
    return tuple(KINDS)[number % len(KINDS)]


@contextmanager
def _cluster(backends: Sequence[str]) -> Iterator[str]:
    """Start a Ray cluster of one node if it is needed, and return its address."""
    if "ray cluster" not in backends:
        yield ""
        return
    cluster_utils: Any = importlib.import_module("ray.cluster_utils")
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False})
    try:
        yield str(cluster.address)
    finally:
        cluster.shutdown()


def _words(backend: str, runs: Path, address: str = "") -> list[str]:
    """Return a command that trains two small runs. It says nothing about threads: both backends have one rule."""
    options = {"--tasks": "toy", "--methods": "simsr+pamd", "--scale": "smoke", "--decisions": DECISIONS}
    options |= {"--checkpoint-every": CHECKPOINT_EVERY, "--evaluate-every": 100, "--log-every": 20, "--capacity": 150}
    options |= {"--device": "cpu", "--retries": 1000, "--workers": 2, "--backend": backend.split()[0], "--runs": runs}
    options |= {"--address": address} if backend == "ray cluster" else {}
    words = [str(word) for pair in options.items() for word in pair]
    seeds = [str(seed) for seed in SEEDS]
    return [sys.executable, "-m", "pamd", "sweep", *words, "--seeds", *seeds, "--set", *SIZES, "env.time_limit=40"]


def _reference(runs: Path) -> dict[str, dict[str, bytes]]:
    """Return the products of every run of a local sweep that nothing interrupts, by name."""
    done = subprocess.run(_words("local", runs), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunError(f"sweeps: the sweep failed without an interruption: {done.stderr}")
    made = {run.name: _products(run) for run in runs.glob("toy_*")}
    shutil.rmtree(runs)
    return made


def _products(run: Path) -> dict[str, bytes]:
    """Return what must not depend on interruptions. The share of the memory of the machine does."""
    made = products(run)
    config = json.loads(made["config.json"])
    config["runtime"].pop("memory", None)
    return made | {"config.json": json.dumps(config).encode()}


@dataclass
class _Storm:
    """One sweep, which is interrupted until it ends."""

    number: int
    runs: Path
    address: str

    def __post_init__(self) -> None:
        self.runs.mkdir()
        self.backend, self.rng = _backend(self.number), np.random.default_rng(self.number)
        self.came: Counter[str] = Counter()
        self.problems: list[str] = []
        self.seconds: list[float] = []
        """From the end of each driver to that of its last worker."""
        self.lost = 0
        """Decisions of runs that trained when their driver was interrupted, and that no checkpoint holds."""
        self.lives = 0
        self.trained: dict[Path, int] = {}
        """The runs that trained at the last interruption, and their processes."""

    def run(self, expected: dict[str, dict[str, bytes]], deadline: float) -> dict[str, Any]:
        code: int | None = None
        while code != 0 and not self.problems:
            self.lives += 1
            code = self._live(quiet=self.came.total() >= _MOST or time.monotonic() > deadline)
        compared, different = 0, Counter[str]()
        for name, wanted in expected.items() if not self.problems else ():
            different.update(differing(wanted, _products(self.runs / name)))
            compared += sum(map(len, wanted.values()))
        if not self.problems and not different:
            shutil.rmtree(self.runs)
        row = {"run": self.number, "scenario": self.backend, "processes": self.lives, "interruptions": dict(self.came)}
        row |= {"seconds": self.seconds, "lost": self.lost, "bytes": compared}
        return {**row, "different": dict(different), "problems": self.problems}

    def _live(self, quiet: bool) -> int:
        """Start the sweep, interrupt its workers and then itself, and return its exit code."""
        output = self.runs / "output"
        with output.open("w") as file:
            driver = subprocess.Popen(
                _words(self.backend, self.runs, self.address), stderr=file, stdout=file, start_new_session=True
            )
        kind: Kind | None = None
        while not quiet and self.came.total() < _MOST and driver.poll() is None:
            kind = KINDS[self.backend][self.rng.integers(len(KINDS[self.backend]))]
            if self._interrupt(kind, driver):
                self.came[kind] += 1
                if kind.startswith("driver"):
                    break
            kind = None
        try:
            code = driver.wait(_HANGS)
        except subprocess.TimeoutExpired:
            driver.kill()
            code = driver.wait()
            self.problems.append(f"no end within {_HANGS:.0f} s after {kind}")
        if kind is not None:
            self._look_after(code)
        said = output.read_text(errors="replace")
        if code == 2 and "Ray could not start" in said and kind is None:
            return code  # The machine is too busy for Ray, which waits for 30 seconds.
        if any(dump in said for dump in _DUMPS) or code not in _codes(kind):
            self.problems.append(f"exit code {code} after {kind or 'the end'}: {said[-3000:]}")
        return code

    def _interrupt(self, kind: Kind, driver: subprocess.Popen[bytes]) -> bool:
        """Send the signal at a random moment after a run has made progress. Return False if the sweep ended first."""
        began, before = time.monotonic(), self._decisions()
        while self._decisions() == before or not self._active():
            if driver.poll() is not None or time.monotonic() - began > _HANGS:
                return False
            time.sleep(0.02)
        time.sleep(self.rng.uniform(0.0, 0.5))
        self.trained, name = self._active(), kind.split()[-1]
        if driver.poll() is not None or not self.trained:
            return False
        pid = driver.pid if kind.startswith("driver") else int(self.rng.choice(list(self.trained.values())))
        try:
            if kind.startswith("Ray"):  # The worker's parent is its supervisor, whose parent is a process of Ray.
                pid = _parent(_parent(pid))
                if pid <= 1:
                    return False
            os.kill(pid, signal.Signals[name])
        except (ProcessLookupError, FileNotFoundError):
            return False
        return True

    def _look_after(self, code: int) -> None:
        """Wait for the end of the workers of a driver that has ended, and count what their checkpoints lack."""
        began = time.monotonic()
        while self._active():
            if time.monotonic() - began > _HANGS:
                self.problems.append(f"workers were still there {_HANGS:.0f} s after the end of their driver ({code})")
                return
            time.sleep(0.02)
        self.seconds.append(round(time.monotonic() - began, 2))
        statuses = self._statuses()
        for run, pid in self.trained.items():
            status, saved = statuses[run], [int(path.name) for path in list_checkpoints(run / "checkpoints")]
            self.lost += max(0, status["decisions"] - max(saved, default=0))
            if status["pid"] == pid and status["state"] == "running":
                self.problems.append(f"{run.name} ended without a checkpoint at {status['decisions']} decisions")

    def _statuses(self) -> dict[Path, dict[str, Any]]:
        return {file.parent: json.loads(file.read_text()) for file in self.runs.glob("*/status.json")}

    def _decisions(self) -> int:
        return sum(status["decisions"] for status in self._statuses().values())

    def _active(self) -> dict[Path, int]:
        """Return the processes of the runs that train now."""
        pids = {run: status["pid"] for run, status in self._statuses().items() if status["state"] == "running"}
        return {run: pid for run, pid in pids.items() if _lives(pid)}


def _codes(kind: Kind | None) -> tuple[int, ...]:
    if kind is None:
        return (0,)
    return (-signal.SIGKILL,) if kind == "driver SIGKILL" else (0, 130)


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _lives(pid: int) -> bool:
    try:
        return _stat(pid)[0] not in "ZX"  # A process that was killed and that its parent has not noticed yet.
    except (FileNotFoundError, ProcessLookupError):
        return False


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name: the state, the parent, and so on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _table(rows: list[dict[str, Any]], kept: Path) -> Table:
    records = []
    kinds = list(dict.fromkeys(kind for kinds in KINDS.values() for kind in kinds))
    for name in [*dict.fromkeys(row["scenario"] for row in rows), "all"]:
        mine = [row for row in rows if name in (row["scenario"], "all")]
        counts: dict[str, int] = {kind: sum(row["interruptions"].get(kind, 0) for row in mine) for kind in kinds}
        record: dict[str, Any] = {"backend": name, "sweeps": len(mine), **counts, "interruptions": sum(counts.values())}
        record["bytes compared"] = sum(row["bytes"] for row in mine)
        record["bytes different"] = sum(sum(row["different"].values()) for row in mine)
        record["decisions lost"] = sum(row["lost"] for row in mine)
        record["slowest end of a run, s"] = max((second for row in mine for second in row["seconds"]), default=0.0)
        record["sweeps failed"] = sum(bool(row["problems"]) for row in mine)
        records.append(record)
    notes = [
        f"{len(SEEDS)} runs of {DECISIONS} decisions at a time, a checkpoint every {CHECKPOINT_EVERY}, at most {_MOST}"
        " interruptions of a sweep; compared with a local sweep without interruptions: config, logs without times, the"
        " last checkpoint, the replay's window.",
        "decisions lost: of runs whose driver was interrupted, those that their last checkpoint lacks. A worker that is"
        " killed loses those since its last checkpoint and computes them again.",
        "slowest end: from the end of a driver to that of its last worker.",
        *(f"sweep {row['run']} ({row['scenario']}): {problem}" for row in rows for problem in row["problems"]),
        *(f"sweep {row['run']} ({row['scenario']}) differs: {row['different']}" for row in rows if row["different"]),
    ]
    if kept.exists():
        notes.append(f"sweeps with a finding were kept in {kept}")
    return Table.from_records("sweeps", "sweeps interrupted at random moments and started again", records, notes)
