"""One update of the agent at paper scale, compared with a reference implementation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.common import Options, limit, matrix_product, twice
from benchmarks.naive import NaiveAgent
from pamd.measure import count_operations, head_update, interleave, make_agent, make_batch, milliseconds, ratio
from pamd.representation.meters import read_meters
from pamd.table import Table
from pamd.training import TrainConfig

__all__ = ["measure"]

METHODS = ("simsr+pamd", "dbc-det+pamd")


def measure(options: Options) -> Table:
    rows = [row for name in METHODS for row in _rows(name, options)]
    notes = (
        "x reference: speedup over the reference implementation, measured in the same repetitions; median (quartiles).",
        "of the limit: FLOP/s of this update as a share of those of a 2048 x 2048 matrix product in the same "
        "repetition. The sequential schedule needs more operations than the joint one: compare times, not shares.",
        "of it the head: share of PAMD's forward on both sides, penalty, backward and Adam step in the update.",
        f"meters on top: cost of the logged metrics, which are computed every {TrainConfig.log_every} updates.",
        "The reference runs with our allocator setting, which research code does not have.",
        "A repetition is two updates, because the actor learns in every second one.",
    )
    return Table.from_records("update", f"one update, paper scale, {options.threads} threads", rows, notes)


def _rows(name: str, options: Options) -> list[dict[str, Any]]:
    batch = make_batch()
    agents: dict[str, Any] = {
        "reference": NaiveAgent(make_agent(name)),
        "sequential": make_agent(name),
        "joint": make_agent(name, schedule="joint"),
    }
    runs: dict[str, Callable[[], object]] = {key: twice(partial(agent.update, batch)) for key, agent in agents.items()}
    distance = agents["joint"].representation.distance
    runs |= {"head": twice(head_update(distance, len(batch))), "product": matrix_product()}
    inputs = (batch.obs, batch.action, batch.reward, batch.next_obs)
    runs["meters"] = lambda: read_meters(agents["joint"].representation, *inputs)
    seconds = interleave(runs, options.repetitions)
    rows = []
    for key in agents:
        operations = count_operations(runs[key])
        row = {"method": name, "schedule": key, "ms": round(milliseconds(seconds[key]) / 2, 1)}
        row |= {"best ms": round(500 * min(seconds[key]), 1)}
        row["x reference"] = str(ratio(seconds["reference"], seconds[key]))
        row["GFLOP"] = round(operations / 2e9, 1)
        row["of the limit"] = str(limit(operations, seconds[key], seconds["product"]))
        ours = key != "reference"
        row["of it the head, %"] = str(ratio(seconds["head"], seconds[key], 100)) if ours else ""
        often = 2 / TrainConfig.log_every  # the share of repetitions with a logged row
        row["meters on top, %"] = str(ratio(seconds["meters"], seconds[key], 100 * often)) if ours else ""
        rows.append(row)
    return rows
