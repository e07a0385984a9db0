"""Decisions per second in training, and the share of each part."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.common import TASK, Options, make_session
from pamd.measure import train_once
from pamd.table import Table
from pamd.training.process import Stopwatch

__all__ = ["measure"]

PARTS = ("render", "physics", "act", "sample", "update")
METHOD = "simsr+pamd"


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
            train_once(session, clock)
        seconds = time.perf_counter() - start
        _, shares = clock.read()
        drawn = session.config.env.render
    row: dict[str, Any] = {"scale": scale, "schedule": schedule, "render": drawn}
    row["decisions/s"] = round(decisions / seconds, 2)
    return row | {f"{part} %": round(100 * shares.get(part, 0.0), 1) for part in PARTS}


def _timed(function: Callable[..., Any], name: str, clock: Stopwatch) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with clock.section(name):
            return function(*args)

    return run
