"""The live table and the plain lines of a sweep."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.sweep.sweeps import toys

from pamd.cli.sweep import Board, duration
from pamd.sweep import Tracked


def write(run: Tracked, decisions: int, last: float) -> None:
    run.job.path.mkdir(exist_ok=True)
    (run.job.path / "status.json").write_text(json.dumps({"state": run.state, "decisions": decisions}))
    (run.job.path / "eval.jsonl").write_text(json.dumps({"decisions": decisions, "return_mean": last}) + "\n")


def board(terminal: bool) -> tuple[Board, io.StringIO]:
    heard = io.StringIO()
    return Board(Console(file=heard, force_terminal=terminal, width=120, no_color=True)), heard


@pytest.mark.parametrize("terminal", [True, False])
def test_state_progress_return_and_time_left(terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock: dict[str, Any] = {"now": 1000.0}
    monkeypatch.setattr("pamd.cli.sweep.time.monotonic", lambda: clock["now"])
    one, two, three = (Tracked(job) for job in toys(tmp_path, range(3), decisions=20_000))
    one.state, two.state = "running", "finished"
    write(one, 4_000, 31.25)
    write(two, 20_000, 250.0)
    watched, heard = board(terminal)
    with watched:
        watched.show([one, two, three])
        clock["now"] += 100
        watched.show([one, two, three])
        write(one, 5_000, 40.0)
        clock["now"] += 100
        heard.truncate(0)
        watched.show([one, two, three])
        text = heard.getvalue()
    assert "5,000/20,000" in text
    assert "40.0" in text
    # 15,000 are left. 1,000 took the 200 s since the first look; lines begin to look 100 s later.
    assert ("50 min" in text) if terminal else ("25 min" in text)
    assert "1 running, 1 waiting, 1 finished" in text
    assert "left in total" in text


def test_changes_are_said_once_with_their_reason(tmp_path: Path) -> None:
    run = Tracked(toys(tmp_path, [3])[0])
    watched, heard = board(terminal=False)
    run.state, run.attempts = "running", 1
    watched.changed(run)
    run.state, run.error = "waiting", "its process was killed by SIGKILL"
    watched.changed(run)
    run.state, run.attempts = "running", 2
    watched.changed(run)
    run.state, run.error = "failed", "[no] more"
    watched.changed(run)
    assert heard.getvalue().splitlines() == [
        "toy simsr+pamd s3: started",
        "toy simsr+pamd s3: its process was killed by SIGKILL; retrying from its last checkpoint",
        "toy simsr+pamd s3: started, attempt 2",
        "toy simsr+pamd s3: failed: [no] more",
    ]


def test_durations() -> None:
    assert [duration(s) for s in (5, 600, 9000, 8e5)] == ["5 s", "10 min", "2.5 h", "9 days"]
