"""CPU time that a sweep on local processes adds to the training of a short run."""

from __future__ import annotations

import contextlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import Options
from pamd.configuration import configure
from pamd.table import Table
from pamd.training import Runtime, train

__all__ = ["measure"]

ON_REQUEST = "trains 500 short runs, which takes half an hour"

JOBS, FEW = 500, 5
"""The runs of the long and of the short sweep. Their difference has the time of a run without that of the start."""
TASK, METHOD, DECISIONS = "toy", "sac", 60
_ALONE = 20
"""The runs that are trained in one process, after two others, to measure the training alone."""


def measure(options: Options) -> Table:
    jobs = len(options.seeds) or JOBS
    alone = _training()
    few, many = _sweep(min(FEW, jobs - 1)), _sweep(jobs)
    each = (many["cpu"] - few["cpu"]) / (many["runs"] - few["runs"])
    row: dict[str, Any] = {"runs": jobs, "decisions per run": DECISIONS}
    row["CPU s of the training of a run"] = round(alone, 2)
    row["CPU s of a run in a sweep"] = round(each, 2)
    row["CPU s beyond the training"] = round(each - alone, 2)
    row["CPU s of the start"] = round(few["cpu"] - few["runs"] * each, 1)
    row["CPU s of the sweep"] = round(many["cpu"], 1)
    row["wall s of the sweep"] = round(many["wall"], 1)
    row["server after the first run, MB"], row["server in the end, MB"] = many["memory"]
    notes = (
        f"{METHOD} on {TASK} at scale smoke, {DECISIONS} decisions, with one worker and one thread. The processor time"
        " of `pamd sweep` and of all its processes.",
        f"Training: the median of {_ALONE} further runs in a process that has trained two.",
        f"Start: the driver and what it prepares once; from the difference to a sweep of {few['runs']} runs.",
        "Server: the resident memory of the process that forks the runs. Every run has its own process.",
    )
    return Table.from_records("sweeps_overhead", "Overhead of a short run in a local sweep", [row], notes)


def _sweep(runs: int) -> dict[str, Any]:
    """Run a sweep in a new process. Return the time of all its processes, and the memory of its server in MB."""
    seeds = [str(seed) for seed in range(runs)]
    words = ["--tasks", TASK, "--methods", METHOD, "--scale", "smoke", "--decisions", str(DECISIONS), "--seeds", *seeds]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pamd", "sweep", *words, "--workers", "1", "--threads", "1", "--runs", folder]
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        memory = _memory_while_running(command, Path(folder))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        finished = len(list(Path(folder).glob("*/eval.jsonl")))
    assert finished == runs, f"{finished} of {runs} runs finished"
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"runs": runs, "cpu": cpu, "wall": time.monotonic() - began, "memory": memory}


def _memory_while_running(command: list[str], runs: Path) -> tuple[int, int] | tuple[None, None]:
    """Run a sweep. Return the memory of the child of its driver after the first run and at the end; None if unknown."""
    driver, seen = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), []
    while driver.poll() is None:
        time.sleep(0.25)
        with contextlib.suppress(OSError, IndexError):
            server = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()[0]
            lines = Path(f"/proc/{server}/status").read_text().splitlines()
            if any(runs.glob("*/eval.jsonl")):
                seen += [int(line.split()[1]) for line in lines if line.startswith("VmRSS:")]
    assert driver.returncode == 0, f"the sweep ended with code {driver.returncode}"
    return (round(seen[0] / 1024), round(seen[-1] / 1024)) if seen else (None, None)


def _training() -> float:
    """Return the CPU seconds of the training of one run, in a process that has done it before."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(_ALONE + 2):
            runtime = Runtime(threads=1, tensorboard=False)
            config = configure(TASK, METHOD, scale="smoke", decisions=DECISIONS, seed=seed, runtime=runtime)
            began = time.process_time()
            train(config, Path(folder))
            seconds.append(time.process_time() - began)
    return statistics.median(seconds[2:])
