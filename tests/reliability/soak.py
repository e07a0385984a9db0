"""A long run on toy. After a warm-up, memory, open file descriptors and threads must stay constant."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.reliability.process import Process, warm_up

from pamd.errors import ResourceError, RunError
from pamd.table import Table

__all__ = ["soak"]

SAMPLES = 200
"""The approximate number of readings, evenly spaced over the budget."""
WARM = 0.25
"""The share of the budget after which nothing may grow. By then the replay is full and every part has run."""
_EPISODES_EVERY = 20
"""The number of evaluations of the run."""
COLUMNS = {"rss": "own memory MB", "descriptors": "open descriptors", "threads": "threads"}


def soak(directory: Path | None, decisions: int) -> Table:
    """Train in a separate process and read /proc while it runs."""
    if not Path("/proc/self/fd").is_dir():
        raise ResourceError("soak reads /proc/PID, which this system does not have")
    warm_up()
    with tempfile.TemporaryDirectory(prefix="pamd-soak-") as name:
        readings = _train(Path(name), decisions)
    if directory is not None:
        _draw(readings, directory / "soak.png")
    warm = [reading for reading in readings if reading["decisions"] >= WARM * decisions]
    rows = [_row(key, title, readings, warm) for key, title in COLUMNS.items()]
    notes = (
        f"toy, simsr+pamd, {decisions:,} decisions, an update at every fifth, evaluations, checkpoints"
        f" and TensorBoard throughout; {len(readings)} readings, warm after {WARM:.0%}.",
        "slope: a straight line through the warm readings, times their number of decisions.",
    )
    return Table.from_records("soak", "resources of one long run", rows, notes)


def _words(runs: Path, decisions: int) -> list[str]:
    options = {
        "--method": "simsr+pamd",
        "--scale": "smoke",
        "--decisions": decisions,
        "--checkpoint-every": max(1, decisions // 100),
        "--evaluate-every": max(1, decisions // _EPISODES_EVERY),
        "--log-every": 50,
        "--capacity": max(100, decisions // 10),
        "--threads": 1,
        "--device": "cpu",
        "--video": "last",
        "--runs": runs,
    }
    sizes = ("learner.batch=16", "learner.hidden=32", "learner.updates_per_decision=0.2", "method.latent_dim=8")
    return [
        "train",
        "toy",
        *(str(word) for pair in options.items() for word in pair),
        "--set",
        *sizes,
        "method.transition.members=1",
    ]


def _train(runs: Path, decisions: int) -> list[dict[str, Any]]:
    """Return readings of the process, each with the last decision in the timing log."""
    process = Process(_words(runs, decisions), runs / "output")
    readings: list[dict[str, Any]] = []
    due = 0.0
    while process.wait(0.25) is None:
        at = _decisions(runs)
        if due <= at < decisions:  # At the end, a video is encoded in additional threads.
            readings.append({"decisions": at, **_read(process.pid)})
            due = at + decisions / SAMPLES
    if process.wait(0.0) != 0:
        raise RunError(f"soak: the run failed: {process.read_output()[-2000:]}")
    return [reading for reading in readings if "rss" in reading]


def _decisions(runs: Path) -> int:
    """Return the decisions in the last row of timing.jsonl."""
    for path in runs.glob("*/timing.jsonl"):
        lines = path.read_bytes()[-1000:].splitlines(keepends=True)
        whole = [line for line in lines if line.startswith(b'{"decisions"') and line.endswith(b"\n")]
        return int(json.loads(whole[-1])["decisions"]) if whole else 0
    return 0


def _read(pid: int) -> dict[str, Any]:
    """Return the private memory of the process in MB, its file descriptors and its threads; empty if it has ended."""
    directory = Path("/proc", str(pid))
    try:
        lines = (directory / "status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines if line.startswith(("RssAnon", "Threads")))
        held = len(os.listdir(directory / "fd"))
        return {
            "rss": int(fields["RssAnon"].split()[0]) / 1024,
            "descriptors": held,
            "threads": int(fields["Threads"]),
            "seconds": round(time.monotonic(), 1),
        }
    except (OSError, KeyError):
        return {}


def _row(key: str, title: str, readings: list[dict[str, Any]], warm: list[dict[str, Any]]) -> dict[str, Any]:
    values = np.array([reading[key] for reading in warm], float)
    at = np.array([reading["decisions"] for reading in warm], float)
    slope = float(np.polyfit(at, values, 1)[0] * (at[-1] - at[0])) if len(set(at)) > 1 else 0.0
    return {
        "what": title,
        "first": round(readings[0][key], 1),
        "warm, least": round(float(values.min()), 1),
        "warm, most": round(float(values.max()), 1),
        "last": round(float(values[-1]), 1),
        "slope": round(slope, 2),
    }


def _draw(readings: list[dict[str, Any]], path: Path) -> None:
    """Plot the three curves over decisions."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 6), layout="constrained")
    for axis, (key, title) in zip(figure.subplots(len(COLUMNS), sharex=True), COLUMNS.items(), strict=True):
        axis.plot([reading["decisions"] for reading in readings], [reading[key] for reading in readings])
        axis.set_ylabel(title)
        axis.set_ylim(0, 1.15 * max(reading[key] for reading in readings))
        axis.axvline(WARM * readings[-1]["decisions"], color="gray", linestyle=":")
    axis.set_xlabel("decisions")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
