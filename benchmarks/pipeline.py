"""`python -m benchmarks.pipeline`: decisions a second of whole training, and where the time goes."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pamd.configuration import configure
from pamd.training import Runtime
from pamd.training.clock import Stopwatch
from pamd.training.loop import _decide, _learn
from pamd.training.run import RunDirectory
from pamd.training.session import Session

PARTS = ("render", "physics", "act", "sample", "update")


def timed(function: Callable[..., Any], name: str, clock: Stopwatch) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with clock.section(name):
            return function(*args)

    return run


def measure(scale: str, schedule: Any, method: str, task: str, decisions: int, threads: int) -> dict[str, Any]:
    """Shares of the time of `decisions` decisions with one update each."""
    warm_up = 4
    config = configure(
        task,
        method,
        scale=scale,
        schedule=schedule,
        decisions=10_000,
        capacity=10_000,
        settings=("method.sac.random_decisions=300", "method.sac.first_updates=1", "log_every=1000000"),
        runtime=Runtime(device="cpu", threads=threads, video="off", tensorboard=False),
    )
    with tempfile.TemporaryDirectory() as directory:
        session = Session(RunDirectory.create(Path(directory), config))
        try:
            session.begin()
            clock = Stopwatch()
            while session.budget.decisions < 300 + warm_up:
                _decide(session, clock)
                _learn(session, clock)
            simulator = session.env.unwrapped.task  # type: ignore[attr-defined]
            simulator.draw = timed(simulator.draw, "render", clock)
            simulator.advance = timed(simulator.advance, "physics", clock)
            clock.read()
            start = time.perf_counter()
            for _ in range(decisions):
                _decide(session, clock)
                _learn(session, clock)
            seconds = time.perf_counter() - start
            _, shares = clock.read()
        finally:
            session.close()
    row = {"scale": scale, "schedule": config.method.schedule, "render": config.env.render}
    row |= {"decisions_per_second": round(decisions / seconds, 2)}
    return row | {f"share_{part}": shares.get(part, 0.0) for part in PARTS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="cheetah_run")
    parser.add_argument("--method", default="simsr+pamd")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(f"pipeline: {args.task}, {args.method}, {args.threads} threads; share of the time of each part")
    print(f"{'scale':<7}{'schedule':<12}{'render':<10}{'decisions/s':>12}" + "".join(f"{part:>9}" for part in PARTS))
    rows = []
    for scale, decisions in (("cpu", 100), ("paper", 8)):
        for schedule in ("sequential", "joint"):
            row = measure(scale, schedule, args.method, args.task, decisions, args.threads)
            rows.append(row)
            print(
                f"{row['scale']:<7}{row['schedule']:<12}{row['render']:<10}{row['decisions_per_second']:>12}"
                + "".join(f"{100 * row[f'share_{part}']:>8.1f}%" for part in PARTS),
                flush=True,
            )
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
