"""tab:pamd_wallclock_scaling: latent dimension 50 against 200, measured on this machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from pamd.experiments.base import SCALES, Experiment, add
from pamd.published import load
from pamd.table import Table

TASK, DIMENSIONS = "cheetah_run", (50, 200)
DECISIONS = 100_000
"""The number of decisions in the paper's runs: its total time times its decisions per second."""


def measure(scale: str) -> Table:
    """Measure updates and whole decisions of every method in the paper's table. The scale sets the repetitions."""
    import torch

    paper = _paper()
    rows = [_row(name, SCALES[scale].repetitions, paper[name]) for name in paper]
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
    title = f"latent dimension 50 against 200, {torch.get_num_threads()} threads"
    return Table.from_records("scaling", title, rows, notes)


def _row(name: str, repetitions: int, paper: dict[str, float]) -> dict[str, Any]:
    import torch

    from pamd.configuration import configure
    from pamd.distances.pamd import Pamd
    from pamd.measure import (
        count_operations,
        head_update,
        interleave,
        learning_session,
        make_agent,
        make_batch,
        milliseconds,
        ratio,
        train_once,
    )
    from pamd.training.config import Runtime

    batch, settings = make_batch(), {d: (f"method.latent_dim={d}",) for d in DIMENSIONS}
    agents = {d: make_agent(name, settings=settings[d]) for d in DIMENSIONS}
    updates = {str(d): _twice(partial(agent.update, batch)) for d, agent in agents.items()}
    distances = {d: agent.representation.distance for d, agent in agents.items()}
    heads = {
        f"head {d}": _twice(head_update(distance, len(batch)))
        for d, distance in distances.items()
        if isinstance(distance, Pamd)
    }
    seconds = interleave(updates | heads, repetitions)
    with ExitStack() as stack:
        sizes: dict[str, Any] = {"scale": "paper", "schedule": "sequential", "decisions": 10_000, "capacity": 10_000}
        decisions = {}
        for d in DIMENSIONS:
            config = configure(TASK, name, **sizes, settings=settings[d], runtime=Runtime(device="cpu"))
            session = stack.enter_context(learning_session(config, torch.get_num_threads(), warm_up=2))
            decisions[str(d)] = _twice(partial(train_once, session))
        whole = interleave(decisions, repetitions)
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
    means = {(row.method, row.quantity, row.task): row.mean for row in load("table-scaling")}
    quantities = {"slower": "update time (ms)", "total": "total time (min)"}
    methods = dict.fromkeys(method for method, _, _ in means)
    return {
        name: {what: means[name, q, "d=200"] / means[name, q, "d=50"] for what, q in quantities.items()}
        for name in methods
    }


def _twice(run: Callable[[], object]) -> Callable[[], object]:
    """Return a function that calls `run` twice, because the actor learns in every second update."""
    return lambda: (run(), run())


EXPERIMENT = add(
    Experiment(
        name="table-scaling",
        title="Latent dimension 50 against 200",
        shows="how update time, decisions per second and total time depend on the latent dimension on this machine",
        compute=measure,
        published="table-scaling",
    )
)
