"""The paper's table of latent-dimension scaling (tab:pamd_wallclock_scaling), measured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from pamd.benchmarks.measure import Options, interleave, milliseconds, ratio
from pamd.benchmarks.pipeline import TASK, make_session
from pamd.benchmarks.update import count_operations, make_agent, make_batch, make_head_update, repeat_twice, twice
from pamd.distances.pamd import Pamd
from pamd.published import load
from pamd.table import Table
from pamd.training.clock import Stopwatch
from pamd.training.loop import decide, learn

__all__ = ["measure"]


DIMENSIONS = (50, 200)
DECISIONS = 100_000
"""The number of decisions in the paper's runs: its total time times its decisions per second."""


def measure(options: Options) -> Table:
    paper = _paper()
    rows = [_row(name, options, paper[name]) for name in paper]
    notes = (
        "Update: sequential schedule, paper scale; slower: median (quartiles) of time at d = 200 over time at d = 50, "
        "in turns; a turn is two updates.",
        "operations: ratio of counted operations; by PAMD: the contribution of its forward on both sides, penalty, "
        "backward and Adam step to `slower`.",
        f"decisions/s: whole decisions of training {TASK} at paper scale and with its standard rendering; "
        f"total: {DECISIONS:,} of them.",
        "Most of the added cost at d = 200 is not PAMD: linear layers of encoder and actor have 4 times the weights.",
        "paper: the published change. Its absolute times are for an unnamed GPU.",
    )
    return Table.from_records("scaling", f"latent dimension 50 against 200, {options.threads} threads", rows, notes)


def _row(name: str, options: Options, paper: dict[str, float]) -> dict[str, Any]:
    batch = make_batch("paper")
    agents = {d: make_agent(name, latent_dim=d) for d in DIMENSIONS}
    updates: dict[str, Callable[[], object]] = {str(d): twice(agent, batch) for d, agent in agents.items()}
    distances = {d: agent.representation.distance for d, agent in agents.items()}
    heads = {
        f"head {d}": repeat_twice(make_head_update(head, len(batch)))
        for d, head in distances.items()
        if isinstance(head, Pamd)
    }
    seconds = interleave(updates | heads, options.repetitions)
    with ExitStack() as stack:
        runs: dict[str, Callable[[], object]] = {}
        for d in DIMENSIONS:
            session = stack.enter_context(make_session(name, "paper", "sequential", options.threads, d, warm_up=2))
            runs[str(d)] = _decisions(session)
        whole = interleave(runs, options.repetitions)
    row: dict[str, Any] = {"method": name}
    row |= {f"update ms, d={d}": round(milliseconds(seconds[str(d)]) / 2, 1) for d in DIMENSIONS}
    row["slower"] = str(ratio(seconds["200"], seconds["50"]))
    row["operations"] = round(count_operations(updates["200"]) / count_operations(updates["50"]), 2)
    row["by PAMD"] = ""
    if heads:
        added = [more - less for more, less in zip(seconds["head 200"], seconds["head 50"], strict=True)]
        row["by PAMD"] = str(ratio(added, seconds["50"]))
    for d in DIMENSIONS:
        per_decision = milliseconds(whole[str(d)]) / 2000
        row[f"decisions/s, d={d}"] = round(1 / per_decision, 2)
        row[f"total h, d={d}"] = round(DECISIONS * per_decision / 3600, 1)
    return row | {f"paper: {what}": round(change, 2) for what, change in paper.items()}


def _paper() -> dict[str, dict[str, float]]:
    """Return the published change of update time (`slower`) and total time (`total`) by method."""
    found = {(row.method, row.quantity, row.task): row.mean for row in load("table-scaling")}
    quantities = {"slower": "update time (ms)", "total": "total time (min)"}
    methods = dict.fromkeys(method for method, _, _ in found)
    return {
        name: {what: found[name, q, "d=200"] / found[name, q, "d=50"] for what, q in quantities.items()}
        for name in methods
    }


def _decisions(session: Any) -> Callable[[], object]:
    clock = Stopwatch()

    def once() -> None:
        decide(session, clock)
        learn(session, clock)

    return repeat_twice(once)
