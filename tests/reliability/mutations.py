"""Damage every file of a run directory in many ways. Each resume must be exact or be refused."""

from __future__ import annotations

import json
import re
import shutil
import signal
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.reliability.damage import Mutation, mutations
from tests.reliability.process import HANGS_SECONDS, Process, warm_up
from tests.reliability.runs import Scenario, differing, only_run, products

from pamd.errors import RunError
from pamd.table import Table

__all__ = ["DECISIONS", "RUN", "STOPPED", "as_stopped", "judge", "measure_mutations"]

STOPPED, DECISIONS = 60, 72
"""The decision at which the run was stopped, and its budget."""
RUN = Scenario("toy", "memory", "mico")


def measure_mutations() -> Table:
    """Resume once after each mutation."""
    warm_up()
    with tempfile.TemporaryDirectory(prefix="pamd-mutations-") as name:
        directory = Path(name)
        expected = products(_train(directory / "reference", DECISIONS))
        stopped = as_stopped(_train(directory / "stopped", STOPPED))
        rows = [_row(mutation, stopped, expected, directory / "mutated") for mutation in mutations()]
    counts = Counter(row["outcome"] for row in rows)
    notes = [
        "; ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())),
        f"a run of {DECISIONS} decisions that was stopped at {STOPPED}, damaged, and resumed by `pamd resume`;"
        " resumes: it ended with the bytes of a run that was never stopped; refused: exit code 2 and one line.",
        *(f"UNEXPECTED: {row['file']}, {row['mutation']}: {row['outcome']}" for row in rows if not row["as expected"]),
    ]
    return Table.from_records("mutations", "mutations of a run directory", rows, notes)


def _train(runs: Path, decisions: int) -> Path:
    runs.mkdir()
    process = Process(RUN.words(runs, decisions), runs / "output")
    if process.wait(HANGS_SECONDS) != 0:
        raise RunError(f"mutations: the run failed before any mutation: {process.read_output()}")
    return only_run(runs)


def as_stopped(run: Path) -> Path:
    """Change a run that ended at `STOPPED` into one that was interrupted there. The video is removed."""
    shutil.rmtree(run / "video", ignore_errors=True)
    for name, change in (("config.json", {"decisions": DECISIONS}), ("status.json", {"state": "interrupted"})):
        file = run / name
        file.write_text(json.dumps({**json.loads(file.read_text()), **change}, indent=2, sort_keys=True) + "\n")
    return run


def _row(mutation: Mutation, stopped: Path, expected: dict[str, bytes], directory: Path) -> dict[str, Any]:
    run = Path(shutil.copytree(stopped, directory / "runs" / stopped.name))
    mutation.apply(run)
    process = Process(["resume", str(run)], directory / "output")
    code = process.wait(HANGS_SECONDS)
    output = process.read_output()
    outcome, message = judge(code, output, run, expected)
    if code is None:
        process.send(signal.SIGKILL)
        process.wait(10.0)
    shutil.rmtree(directory)
    return {
        "file": mutation.file,
        "mutation": mutation.what,
        "outcome": outcome,
        "as expected": outcome == mutation.expected,
        "said": message,
    }


def judge(code: int | None, output: str, run: Path, expected: dict[str, bytes]) -> tuple[str, str]:
    """Return the outcome of `pamd resume RUN`, an `Outcome` or a description of the failure, and its message."""
    if "Traceback (most recent call last)" in output or code not in (0, 2):
        return f"traceback or exit code {code}", output[-500:]
    lines = [line.replace(f"{run}/", "").replace(str(run), "RUN") for line in output.splitlines()]
    if code == 2:
        refusals = [line.removeprefix("pamd: ") for line in lines if line.startswith("pamd: ")]
        return ("refused", refusals[-1]) if refusals else ("refused without a message", output[-500:])
    actual = products(run)
    if actual["config.json"] != expected["config.json"]:
        expected = {**expected, "config.json": actual["config.json"]}  # The runtime settings may differ.
    different = differing(expected, actual)
    messages = [line for line in lines if re.search("using the previous checkpoint|resuming", line)]
    return ("DIFFERENT", str(different)) if different else ("resumes", "; ".join(messages))
