"""Repeatedly interrupted runs must end with the same bytes as an uninterrupted run."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tests.reliability.faults import Fault
from tests.reliability.process import HANGS_SECONDS, Process, warm_up
from tests.reliability.runs import CHECKPOINT_EVERY, DECISIONS, SCENARIOS, Scenario, differing, only_run, products

from pamd.errors import RunError
from pamd.runs.checkpoints import list_checkpoints
from pamd.table import Table

__all__ = ["KINDS", "Kind", "append_row", "kills", "read_rows", "total_interruptions"]

Kind = Literal["SIGKILL", "SIGTERM", "SIGINT twice", "STOP/CONT", "fsync", "rename", "full disk"]

KINDS: dict[Kind, tuple[int, ...]] = {
    "SIGKILL": (-signal.SIGKILL,),
    "SIGTERM": (130, -signal.SIGTERM),
    "SIGINT twice": (130, -signal.SIGINT),
    "STOP/CONT": (),
    "fsync": (-signal.SIGKILL,),
    "rename": (-signal.SIGKILL,),
    "full disk": (2,),
}
"""The interruptions and their allowed exit codes. A paused process continues."""

_SIGNALS: tuple[Kind, ...] = ("SIGKILL", "SIGTERM", "SIGINT twice", "STOP/CONT")
_CALLS: dict[Kind, int] = {"fsync": 40, "rename": 10, "full disk": 40}
"""The last call at which a fault can occur, after about two checkpoints."""
_TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Pace:
    """The timing of an uninterrupted run in seconds."""

    startup: float
    """From the start of a process to its first decision."""
    checkpoint: float
    """From one checkpoint to the next."""

    def moment(self, rng: np.random.Generator) -> float:
        """Draw the time of an interruption: sometimes during startup, mostly before the second checkpoint."""
        if rng.random() < 0.2:
            return rng.uniform(0.0, self.startup)
        return self.startup + rng.uniform(0.0, 2 * self.checkpoint)

    def slower(self, factor: float) -> Pace:
        return Pace(self.startup * factor, self.checkpoint * factor)


@dataclass(frozen=True)
class Life:
    """The end of a process and its cause."""

    kinds: tuple[Kind, ...]
    """The interruptions before the end: any number of pauses, and at most one other."""
    code: int
    problem: str | None
    """A failure: a traceback, an unexpected exit code, or a process that does not end."""


def live(words: Sequence[str], output: Path, rng: np.random.Generator, pace: Pace, *, fork: bool) -> Life:
    """Start `pamd WORDS` and interrupt it at a random moment."""
    kinds = tuple(KINDS) if fork else _SIGNALS
    kind = kinds[rng.integers(len(kinds))]
    fault = _fault(kind, rng) if kind in _CALLS else None
    process = Process(words, output, fault, fork=fork)
    interruptions = [] if fault else _signal(process, kind, rng, pace)
    code = process.wait(HANGS_SECONDS)
    if code is None:
        process.send(signal.SIGKILL)
        process.wait(HANGS_SECONDS)
        return Life(
            tuple(interruptions), -signal.SIGKILL, f"no end within {HANGS_SECONDS:.0f} s after {interruptions or kind}"
        )
    if fault and code != 0:
        interruptions = [kind]
    return Life(tuple(interruptions), code, _problem(interruptions, code, process.read_output()))


def _fault(kind: Kind, rng: np.random.Generator) -> Fault:
    at: Literal["fsync", "rename", "write"] = (
        "write" if kind == "full disk" else "fsync" if kind == "fsync" else "rename"
    )
    return Fault(at, int(rng.integers(1, _CALLS[kind] + 1)), after=bool(rng.integers(2)))


def _signal(process: Process, kind: Kind, rng: np.random.Generator, pace: Pace) -> list[Kind]:
    """Send the signals of `kind` unless the process ends first. Return the interruptions that were sent."""
    interruptions: list[Kind] = []
    while process.wait(pace.moment(rng)) is None:
        interruptions.append(kind)
        if kind != "STOP/CONT":
            break
        process.send(signal.SIGSTOP)
        time.sleep(rng.uniform(0.0, 0.1))
        process.send(signal.SIGCONT)
        kind = _SIGNALS[rng.integers(len(_SIGNALS))]
    if not interruptions or interruptions[-1] == "STOP/CONT":
        return interruptions
    if kind == "SIGKILL":
        process.send(signal.SIGKILL)
    elif kind == "SIGTERM":
        process.send(signal.SIGTERM)
    else:
        process.send(signal.SIGINT)
        # The second signal may arrive immediately, while the first is handled, or too late.
        if process.wait(rng.choice([0.0, 0.02, 0.1])) is None:
            process.send(signal.SIGINT)
    return interruptions


def _problem(interruptions: Sequence[Kind], code: int, output: str) -> str | None:
    allowed = (0, *(KINDS[interruptions[-1]] if interruptions else ()))
    if code in allowed and (_TRACEBACK not in output or _interpreter_interrupted(interruptions, output)):
        return None
    return f"exit code {code} after {', '.join(interruptions) or 'no interruption'}: {output[-2000:].strip()}"


def _interpreter_interrupted(interruptions: Sequence[Kind], output: str) -> bool:
    """Return whether SIGINT interrupted the interpreter itself, before the command began or after it ended."""
    last = output.rstrip(": \n").endswith("KeyboardInterrupt")
    return list(interruptions[-1:]) == ["SIGINT twice"] and output.count(_TRACEBACK) == 1 and last


@dataclass(frozen=True)
class Reference:
    """The uninterrupted run."""

    products: dict[str, bytes]
    pace: Pace


def kills(directory: Path | None, most_runs: int, minutes: float, interruptions: int) -> Table:
    """Interrupt runs until `most_runs`, `minutes` or `interruptions` is reached.

    If kills.jsonl exists in `directory`, the storm continues from it.
    """
    warm_up()
    log = None if directory is None else directory / "kills.jsonl"
    rows = read_rows(log)
    deadline = time.monotonic() + 60 * minutes
    references: dict[Scenario, Reference] = {}
    storm = Path(tempfile.mkdtemp(prefix="pamd-kills-"))
    while len(rows) < most_runs and time.monotonic() < deadline and total_interruptions(rows) < interruptions:
        number = next(n for n in itertools.count() if all(row["run"] != n for row in rows))
        scenario = SCENARIOS[number % len(SCENARIOS)]
        if scenario not in references:
            references[scenario] = _reference(scenario, storm / "reference")
        row = _storm(number, scenario, references[scenario], storm / f"{number}", deadline)
        rows.append(row)
        append_row(log, row)
    if not any(storm.iterdir()):
        storm.rmdir()
    return _table(rows, storm)


def _reference(scenario: Scenario, runs: Path) -> Reference:
    began = time.monotonic()
    runs.mkdir()
    process = Process(scenario.words(runs), runs / "output")
    while process.wait(0.0) is None and not list(runs.glob("*/status.json")):
        time.sleep(0.01)
    startup = time.monotonic() - began
    if process.wait(HANGS_SECONDS) != 0:
        raise RunError(f"kills: the run {scenario.name} failed without an interruption: {process.read_output()}")
    training = time.monotonic() - began - startup
    expected = products(only_run(runs))
    shutil.rmtree(runs)
    return Reference(expected, Pace(startup, training * CHECKPOINT_EVERY / DECISIONS))


def _storm(number: int, scenario: Scenario, reference: Reference, runs: Path, deadline: float) -> dict[str, Any]:
    """Interrupt one run until it ends. Return the interruptions and the number of different bytes."""
    runs.mkdir()
    rng = np.random.default_rng(number)
    came: Counter[str] = Counter()
    problems: list[str] = []
    lives, newest, code, slower = 0, 0, None, 1.0
    while code != 0 and not problems:
        words = scenario.words(runs) if lives == 0 or rng.integers(2) else _resume(runs) or scenario.words(runs)
        if came.total() >= scenario.most or time.monotonic() > deadline:
            process = Process(words, runs / "output")
            code = process.wait(HANGS_SECONDS)
            problems += (
                [] if code == 0 else [f"exit code {code} without an interruption: {process.read_output()[-2000:]}"]
            )
            break
        # The first process of each scenario starts like a user's command. This takes seconds, so the others are forked.
        fork = lives > 0 or number >= len(SCENARIOS)
        life = live(words, runs / "output", rng, reference.pace.slower(slower), fork=fork)
        came.update(life.kinds)
        problems += [life.problem] if life.problem else []
        code, lives = life.code, lives + 1
        before, newest = newest, _newest(runs)
        # Adapt to the load of the machine. About one checkpoint per process gives many interruptions per run.
        slower *= 1.3 if newest == before else 0.7 if newest > before + CHECKPOINT_EVERY else 1.0
    row: dict[str, Any] = {"run": number, "scenario": scenario.name, "processes": lives, "interruptions": dict(came)}
    different = {} if problems else differing(reference.products, products(only_run(runs)))
    compared = 0 if problems else sum(map(len, reference.products.values()))
    row |= {"bytes": compared, "different": different, "problems": problems}
    if not problems and not different:
        shutil.rmtree(runs)
    return row


def _resume(runs: Path) -> list[str] | None:
    """Return the arguments that resume the run, if there is one."""
    existing = [path.parent for path in runs.glob("*/config.json")]
    return ["resume", str(existing[0])] if existing else None


def _newest(runs: Path) -> int:
    """Return the decision of the newest checkpoint, or 0 if there is none."""
    checkpoints = [path for directory in runs.glob("*/checkpoints") for path in list_checkpoints(directory)]
    return int(checkpoints[0].name) if checkpoints else 0


def read_rows(log: Path | None) -> list[dict[str, Any]]:
    """Read the rows of an earlier storm; empty if there is none."""
    return [] if log is None or not log.exists() else [json.loads(line) for line in log.read_text().splitlines()]


def append_row(log: Path | None, row: dict[str, Any]) -> None:
    """Add the row of a run to the log."""
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def total_interruptions(rows: list[dict[str, Any]]) -> int:
    """Return the number of interruptions in all rows."""
    return sum(sum(row["interruptions"].values()) for row in rows)


def _table(rows: list[dict[str, Any]], kept: Path) -> Table:
    records = []
    for name in [*dict.fromkeys(row["scenario"] for row in rows), "all"]:
        mine = [row for row in rows if name in (row["scenario"], "all")]
        counts: dict[str, int] = {kind: sum(row["interruptions"].get(kind, 0) for row in mine) for kind in KINDS}
        record: dict[str, Any] = {"run": name, "runs": len(mine), **counts, "interruptions": sum(counts.values())}
        record["bytes compared"] = sum(row["bytes"] for row in mine)
        record["bytes different"] = sum(sum(row["different"].values()) for row in mine)
        record["resumes failed"] = sum(len(row["problems"]) for row in mine)
        records.append(record)
    notes = [
        f"{DECISIONS} decisions per run, a checkpoint every {CHECKPOINT_EVERY}; compared with the same run without"
        " interruptions: config, logs without times, the last checkpoint, the replay's window, videos.",
        "fsync, rename: SIGKILL right before or after the n-th call; full disk: every write from the n-th on fails.",
        *(f"run {row['run']} ({row['scenario']}): {problem}" for row in rows for problem in row["problems"]),
        *(f"run {row['run']} ({row['scenario']}) differs: {row['different']}" for row in rows if row["different"]),
    ]
    if kept.exists():
        notes.append(f"runs with a finding were kept in {kept}")
    return Table.from_records("kills", "runs interrupted at random moments and resumed", records, notes)
