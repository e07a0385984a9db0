"""Compare whole updates of several versions of the source code.

Usage: ``python benchmarks/fast_paths.py OLD/src NEW/src ...`` (for example, of two git worktrees). Each version runs in
a process of its own, with its own source on the path. The processes take turns, so that a busy machine slows all of
them alike. The times are processor time. A ratio above 1 means that the first version is faster than the other one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

SCALES = ("paper-sequential", "paper-joint", "cpu", "state")
METHODS = ("dbc-det+pamd", "simsr+pamd")
UPDATES = {"paper-sequential": 2, "paper-joint": 2, "cpu": 10, "state": 20}
"""Updates of one repetition. An even number, because the actor may learn in every second update."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+", type=Path, help="directories that contain the package pamd")
    parser.add_argument("--scales", nargs="+", choices=SCALES, default=SCALES)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    for scale in options.scales:
        for method in options.methods:
            _compare(scale, method, options)


def _compare(scale: str, method: str, options: argparse.Namespace) -> None:
    """Measure one scale and method, and print a line for each version."""
    workers = [_start(source, scale, method, options.threads) for source in options.sources]
    times: list[list[float]] = [[] for _ in workers]
    try:
        for repetition in range(options.repetitions):
            order = list(range(len(workers)))
            for i in order if repetition % 2 else reversed(order):
                times[i].append(_run(workers[i]))
    finally:
        for worker in workers:
            worker.terminate()
            worker.wait()
    for source, measured in zip(options.sources, times, strict=True):
        ratios = [x / first for x, first in zip(measured, times[0], strict=True)]
        low, median, high = statistics.quantiles(ratios, n=4)
        milliseconds = 1000 * statistics.median(measured)
        ratio = f"{median:.3f} ({low:.3f} to {high:.3f})"
        sys.stdout.write(f"{scale:16} {method:12} {source!s:24} {milliseconds:8.2f} ms  {ratio}\n")
        sys.stdout.flush()


def _start(source: Path, scale: str, method: str, threads: int) -> subprocess.Popen[str]:
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import fast_paths"
    return subprocess.Popen(
        [sys.executable, "-c", f"{code}; fast_paths.work({scale!r}, {method!r}, {threads})"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(source.resolve())},
    )


def _run(worker: subprocess.Popen[str]) -> float:
    """Let the worker make one repetition, and return its processor seconds per update."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("run\n")
    worker.stdin.flush()
    return float(json.loads(worker.stdout.readline()))


def work(scale: str, method: str, threads: int) -> None:
    """Make updates whenever a line arrives on standard input. The worker process calls this function."""
    import torch

    from pamd.agent import Agent
    from pamd.configuration import configure
    from pamd.training.process import keep_freed_memory
    from pamd.types import Batch, NStep

    keep_freed_memory()
    torch.set_num_threads(threads)
    name, _, schedule = scale.partition("-")
    task = "state:walker_walk" if name == "state" else "cheetah_run"
    config = configure(task, method, scale=name, schedule=schedule or None)
    shape = (24,) if name == "state" else config.env.picture_shape
    agent = Agent(config.agent, observation_shape=shape, action_dim=6, seed=0)
    draw, size, n_step = torch.Generator().manual_seed(0), config.learner.options.batch, config.learner.options.n_step

    def observations() -> torch.Tensor:
        if name == "state":
            return torch.randn(size, *shape, generator=draw)
        return torch.randint(0, 256, (size, *shape), dtype=torch.uint8, generator=draw)

    later = NStep(torch.rand(size, generator=draw), observations(), torch.full((size,), 0.97)) if n_step > 1 else None
    action, reward = torch.rand(size, 6, generator=draw) * 2 - 1, torch.rand(size, generator=draw)
    batch = Batch(observations(), action, reward, observations(), torch.ones(size), n_step=later)
    count = UPDATES[scale]
    for _ in range(max(2, count // 2)):
        agent.update(batch)
    for _ in sys.stdin:
        start = time.process_time()
        for _ in range(count):
            agent.update(batch)
        sys.stdout.write(json.dumps((time.process_time() - start) / count) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
