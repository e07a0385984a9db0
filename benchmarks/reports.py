"""CPU time and size of a report on 2,000 runs, and the time to open its page in a browser."""

from __future__ import annotations

import hashlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Options
from pamd.configuration import configure
from pamd.runs.campaigns import write_campaign
from pamd.runs.checkpoints import write_checkpoint
from pamd.runs.identity import run_name, tree_identity
from pamd.table import Table
from pamd.training.config import config_text

__all__ = ["make_runs", "measure", "write_directories"]

ON_REQUEST = "writes 2,000 run directories, which takes minutes on a slow disk"

TASKS = ("cartpole_swingup", "cheetah_run", "finger_spin", "hopper_stand", "reacher_easy", "walker_run", "walker_stand",
         "walker_walk")  # fmt: skip
METHODS = ("dbc", "dbc-det", "dbc-det+pamd", "dbc-unit", "dbc-unit+pamd", "deepmdp", "mico", "simsr", "simsr+mlp",
           "simsr+pamd")  # fmt: skip
SEEDS = 25
DECISIONS, EVALUATE_EVERY, LOG_EVERY, EPISODE = 12_000, 1000, 500, 250
_METERS = ("critic_loss", "q_mean", "transition_loss", "reward_loss", "metric_loss", "target_mean", "target_max",
           "distance_mean", "distance_max", "actor_loss", "entropy", "log_std", "temperature", "gradient_encoder",
           "reach_fixed_point", "reach_largest")  # fmt: skip
_REPORT = """
import json, sys, time
from pamd.cli.main import main
code = main(["report", sys.argv[1], "--out", sys.argv[2], "--title", "2,000 runs"])
print(json.dumps({"code": code, "seconds": time.process_time()}))
"""
_OPENED = """() => {
  const timing = performance.getEntriesByType("navigation")[0];
  return { content: timing.domContentLoadedEventEnd, load: timing.loadEventEnd,
           elements: document.querySelectorAll("*").length };
}"""


def measure(options: Options) -> Table:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        runs = list(make_runs())
        write_campaign(runs, root / "campaign.parquet")
        write_directories(runs, root / "runs")
        for what, source in (("campaign in one Parquet file", "campaign.parquet"), ("run directories", "runs")):
            taken = [_report(root / source, root / "report") for _ in range(options.repetitions)]
            seconds = f"{statistics.median(taken):.1f} ({min(taken):.1f} to {max(taken):.1f})"
            rows.append({"runs": len(runs), "read from": what, "CPU seconds": seconds, **_sizes(root / "report")})
            rows[-1] |= _opened(root / "report" / "index.html", options.repetitions)
    notes = (
        f"{len(TASKS)} tasks, {len(METHODS)} methods, {SEEDS} seeds. A run has {DECISIONS // EVALUATE_EVERY + 1}"
        f" evaluations of 3 episodes, {DECISIONS // LOG_EVERY} rows of meters, {DECISIONS // EPISODE} episodes and"
        f" {DECISIONS // LOG_EVERY} rows of timing. Run directories have a checkpoint, whose digests are checked.",
        "CPU seconds: `pamd report` in a fresh process, imports included; the median and the range. Opened: until the"
        " events DOMContentLoaded and load in Chromium, the median; — without Playwright and Chromium.",
    )
    return Table.from_records("reports", "A report on 2,000 runs", rows, notes)


def make_runs(seeds: int = SEEDS) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield (name, content of each file) of runs with made-up numbers and valid configs. One in 100 is unfinished."""
    rng = np.random.default_rng(0)
    for task in TASKS:
        for rank, method in enumerate(METHODS):
            base = json.loads(config_text(configure(task, method, scale="cpu", decisions=DECISIONS)))
            for seed in range(seeds):
                tree = {**base, "seed": seed}
                stopped = rng.random() < 0.01
                last = DECISIONS // 2 if stopped else DECISIONS
                status = {"state": "interrupted" if stopped else "finished", "pid": 1, "time": 1.8e9 + seed}
                status |= {"decisions": last, "frames": 4 * last, "updates": last}
                files = {"config.json": json.dumps(tree, indent=2, sort_keys=True) + "\n"}
                files |= {"status.json": json.dumps(status, indent=1) + "\n"}
                files |= {"versions.json": json.dumps([{"pamd": base["pamd"], "python": "3.12"}], indent=1) + "\n"}
                files |= _logs(rank, last, rng)
                yield run_name(tree), {name: text.encode() for name, text in files.items()}


def _logs(rank: int, last: int, rng: np.random.Generator) -> dict[str, str]:
    def counts(decisions: int) -> dict[str, int]:
        return {"decisions": decisions, "frames": 4 * decisions, "updates": max(0, decisions - 500)}

    evaluations, train, timing = [], [], []
    height = 500 + 30 * rank + 60 * rng.normal()
    for at in range(0, last + 1, EVALUATE_EVERY):
        returns = np.clip(height * (1 - np.exp(-at / 4000)) + 20 * rng.normal(size=3), 0, 1000).tolist()
        evaluations.append({**counts(at), "return_mean": sum(returns) / 3, "returns": returns, "length_mean": 250.0})
    for at in range(EPISODE, last + 1, EPISODE):
        row = {"return": height * rng.random(), "length": EPISODE, "episode": at // EPISODE}
        train.append({"kind": "episode", **counts(at), **row})
        if at % LOG_EVERY == 0:
            meters = dict(zip(_METERS, rng.normal(size=len(_METERS)).tolist(), strict=True))
            missed = 0.2 if rng.random() < 0.002 else 0.0
            train.append({"kind": "update", **counts(at), **meters, "effective_rank": 9.5, "reach_missed": missed})
            spent = {"act": 0.04, "environment": 0.1, "sample": 0.02, "update": 0.8, "meters": 0.001, "cpu": 0.99}
            timing.append({**counts(at), "seconds": at / 40, "decisions_per_second": 40.0, **spent})
    rows = {"eval.jsonl": evaluations, "train.jsonl": train, "timing.jsonl": timing}
    return {name: "".join(json.dumps(row) + "\n" for row in found) for name, found in rows.items()}


def write_directories(runs: list[tuple[str, dict[str, bytes]]], root: Path) -> None:
    """Write runs as directories with one checkpoint each, as training leaves them, without tensors and replay."""
    for name, contents in runs:
        run = root / name
        run.mkdir(parents=True)
        for file, content in contents.items():
            (run / file).write_bytes(content)
        status = json.loads(contents["status.json"])
        budget = {unit: status[unit] for unit in ("decisions", "frames", "updates")}
        logs = {
            log: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for log in ("train", "eval", "timing")
            if (data := contents[f"{log}.jsonl"]) is not None
        }
        replay = {"written": budget["decisions"], "transitions": budget["decisions"], "checks": {}}
        identity = tree_identity(json.loads(contents["config.json"]))
        state: dict[str, Any] = {"budget": budget, "config": identity, "logs": logs}
        state |= {"replay": replay, "seconds": 300.0, "evaluated_at": budget["decisions"], "last_return": 1.0}
        write_checkpoint(run / "checkpoints", budget["decisions"], b"", {**state, "episode": [0.0, 0], "metrics": {}})


def _report(runs: Path, out: Path) -> float:
    """Write a report in a fresh process and return its CPU time in seconds."""
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-c", _REPORT, str(runs), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    assert found["code"] == 0, done.stderr
    return found["seconds"]


def _sizes(out: Path) -> dict[str, Any]:
    page = (out / "index.html").stat().st_size
    rest = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) - page
    return {"page, MB": round(page / 1e6, 2), "other files, MB": round(rest / 1e6, 2)}


def _opened(page: Path, repetitions: int) -> dict[str, Any]:
    """Open the page in new browsers and return the median times until its events."""
    names = ("content, s", "load, s", "elements")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if program is None:
        return dict.fromkeys(names)
    found = []
    with sync_playwright() as driver:
        for _ in range(repetitions):
            browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            view = browser.new_page(viewport={"width": 1280, "height": 900})
            view.goto(page.as_uri(), wait_until="load")
            found.append(view.evaluate(_OPENED))
            browser.close()
    content, load = (statistics.median(one[event] for one in found) / 1000 for event in ("content", "load"))
    return dict(zip(names, (round(content, 2), round(load, 2), found[0]["elements"]), strict=True))
