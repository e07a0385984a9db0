"""Decisions per second in training, and the share of each part."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pamd.benchmarks.measure import Options
from pamd.configuration import configure
from pamd.table import Table
from pamd.training import Runtime
from pamd.training.clock import Stopwatch
from pamd.training.loop import decide, learn
from pamd.training.run import RunDirectory
from pamd.training.session import Session
from pamd.training.threads import torch_threads

__all__ = ["make_session", "measure"]

PARTS = ("render", "physics", "act", "sample", "update")
TASK, METHOD = "cheetah_run", "simsr+pamd"
RANDOM = 150
"""Decisions before the first update. They fill the replay with at least one batch."""


def measure(options: Options) -> Table:
    rows = []
    for scale, turn in (("cpu", 10), ("paper", 1)):
        for schedule in ("sequential", "joint"):
            rows.append(_row(scale, schedule, turn * options.repetitions, options.threads))
    notes = (
        "Shares of the time of whole decisions: act, simulate, draw, store, sample, update; the rest is bookkeeping.",
        "The learner is busy for the share of `update`.",
    )
    return Table.from_records(
        "pipeline", f"training {METHOD} on {TASK}, one update per decision, {options.threads} threads", rows, notes
    )


def _row(scale: str, schedule: str, decisions: int, threads: int) -> dict[str, Any]:
    with make_session(METHOD, scale, schedule, threads) as session:
        clock = Stopwatch()
        simulator = session.env.unwrapped.task  # type: ignore[attr-defined]
        simulator.draw = _timed(simulator.draw, "render", clock)
        simulator.advance = _timed(simulator.advance, "physics", clock)
        clock.read()
        start = time.perf_counter()
        for _ in range(decisions):
            decide(session, clock)
            learn(session, clock)
        seconds = time.perf_counter() - start
        _, shares = clock.read()
        drawn = session.config.env.render
    row: dict[str, Any] = {"scale": scale, "schedule": schedule, "render": drawn}
    row["decisions/s"] = round(decisions / seconds, 2)
    return row | {f"{part} %": round(100 * shares.get(part, 0.0), 1) for part in PARTS}


@contextmanager
def make_session(
    method: str,
    scale: str,
    schedule: Any,
    threads: int,
    latent_dim: int = 50,
    warm_up: int = 4,
    capacity: int = 10_000,
    storage: str = "memory",
    directory: Path | None = None,
) -> Iterator[Session]:
    """Yield a session that has begun to learn. Its temporary directory is created in `directory`."""
    config = configure(
        TASK,
        method,
        scale=scale,
        schedule=schedule,
        decisions=capacity,
        capacity=capacity,
        settings=(
            f"replay.storage={storage}",
            f"learner.random_decisions={RANDOM}",
            "learner.first_updates=1",
            f"method.latent_dim={latent_dim}",
            "log_every=1000000",
        ),
    )
    runtime = Runtime(device="cpu", threads=threads, video="off", tensorboard=False)
    with tempfile.TemporaryDirectory(dir=directory) as place, torch_threads(threads):
        session = Session(RunDirectory.create(Path(place), replace(config, runtime=runtime)), threads)
        try:
            session.begin()
            clock = Stopwatch()
            while session.budget.decisions < RANDOM + warm_up:
                decide(session, clock)
                learn(session, clock)
            yield session
        finally:
            session.close()


def _timed(function: Callable[..., Any], name: str, clock: Stopwatch) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with clock.section(name):
            return function(*args)

    return run
