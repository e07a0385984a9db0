"""Reliability test: repeatedly interrupted runs must end with the same bytes as an uninterrupted run."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pamd.benchmarks.measure import Options
from pamd.benchmarks.storm.interrupt import HANGS_SECONDS, KINDS, Pace, live
from pamd.benchmarks.storm.process import Process, warm_up
from pamd.benchmarks.storm.products import differing, products
from pamd.benchmarks.storm.scenarios import CHECKPOINT_EVERY, DECISIONS, SCENARIOS, Scenario
from pamd.errors import RunError
from pamd.table import Table
from pamd.training import checkpoint

__all__ = ["measure"]


@dataclass(frozen=True)
class Reference:
    """The uninterrupted run."""

    products: dict[str, bytes]
    pace: Pace


def measure(options: Options) -> Table:
    """Interrupt runs until `most_runs`, `minutes` or `interruptions` is reached.

    If kills.jsonl exists, the benchmark continues from it.
    """
    warm_up()
    log = None if options.directory is None else options.directory / "kills.jsonl"
    rows = _read(log)
    deadline = time.monotonic() + 60 * options.minutes
    references: dict[Scenario, Reference] = {}
    place = Path(tempfile.mkdtemp(prefix="pamd-kills-"))
    while len(rows) < options.most_runs and time.monotonic() < deadline and _total(rows) < options.interruptions:
        number = next(n for n in itertools.count() if all(row["run"] != n for row in rows))
        scenario = SCENARIOS[number % len(SCENARIOS)]
        if scenario not in references:
            references[scenario] = _reference(scenario, place / "reference")
        row = _storm(number, scenario, references[scenario], place / f"{number}", deadline)
        rows.append(row)
        _append(log, row)
    if not any(place.iterdir()):
        place.rmdir()
    return _table(rows, place)


def _reference(scenario: Scenario, runs: Path) -> Reference:
    began = time.monotonic()
    runs.mkdir()
    process = Process(scenario.words(runs), runs / "output")
    while process.wait(0.0) is None and not list(runs.glob("*/status.json")):
        time.sleep(0.01)
    startup = time.monotonic() - began
    if process.wait(HANGS_SECONDS) != 0:
        raise RunError(f"bench kills: the run {scenario.name} failed without an interruption: {process.read_output()}")
    training = time.monotonic() - began - startup
    found = products(_only(runs))
    shutil.rmtree(runs)
    return Reference(found, Pace(startup, training * CHECKPOINT_EVERY / DECISIONS))


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
    different = {} if problems else differing(reference.products, products(_only(runs)))
    compared = 0 if problems else sum(map(len, reference.products.values()))
    row |= {"bytes": compared, "different": different, "problems": problems}
    if not problems and not different:
        shutil.rmtree(runs)
    return row


def _only(runs: Path) -> Path:
    (run,) = (path for path in runs.iterdir() if path.is_dir())
    return run


def _resume(runs: Path) -> list[str] | None:
    """Return the arguments that resume the run, if there is one."""
    found = [path.parent for path in runs.glob("*/config.json")]
    return ["resume", str(found[0])] if found else None


def _newest(runs: Path) -> int:
    """Return the decision of the newest checkpoint, or 0 if there is none."""
    found = [path for place in runs.glob("*/checkpoints") for path in checkpoint.all_in(place)]
    return int(found[0].name) if found else 0


def _read(log: Path | None) -> list[dict[str, Any]]:
    return [] if log is None or not log.exists() else [json.loads(line) for line in log.read_text().splitlines()]


def _append(log: Path | None, row: dict[str, Any]) -> None:
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _total(rows: list[dict[str, Any]]) -> int:
    return sum(sum(row["interruptions"].values()) for row in rows)


def _table(rows: list[dict[str, Any]], place: Path) -> Table:
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
    if place.exists():
        notes.append(f"runs with a finding were kept in {place}")
    return Table.from_records("kills", "runs interrupted at random moments and resumed", records, notes)
