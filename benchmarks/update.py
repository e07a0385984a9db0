"""One update of the agent at paper scale, compared with a reference implementation."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.common import Options, limit, matrix_product, twice
from benchmarks.naive import NaiveAgent
from pamd.measure import count_operations, head_update, interleave, make_agent, make_batch, milliseconds, ratio
from pamd.precision import has_bfloat16
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
        "The reference runs with our allocator setting, which research code does not have. It is float32.",
        "bfloat16: the encoder's products are bfloat16. Its rows are missing if the CPU has no bfloat16 arithmetic.",
        "One thread: CPU time. Several threads: wall time.",
        "A repetition is two updates, because the actor learns in every second one.",
    )
    return Table.from_records("update", f"one update, paper scale, {options.threads} threads", rows, notes)


def _rows(name: str, options: Options) -> list[dict[str, Any]]:
    batch = make_batch()
    precisions = ["float32", *(["bfloat16"] if has_bfloat16(torch.device("cpu")) else [])]
    agents: dict[str, Any] = {"reference float32": NaiveAgent(make_agent(name))}
    for precision in precisions:
        for schedule in ("sequential", "joint"):
            agents[f"{schedule} {precision}"] = make_agent(name, schedule=schedule, precision=precision)
    runs: dict[str, Callable[[], object]] = {key: twice(partial(agent.update, batch)) for key, agent in agents.items()}
    ours = agents["joint float32"].representation
    runs |= {"head": twice(head_update(ours.distance, len(batch))), "product": matrix_product()}
    inputs = (batch.obs, batch.action, batch.reward, batch.next_obs)
    runs["meters"] = lambda: read_meters(ours, *inputs)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    seconds = interleave(runs, options.repetitions, clock)
    rows = []
    for key in agents:
        operations = count_operations(runs[key])
        schedule, precision = key.split()
        row: dict[str, Any] = {"method": name, "schedule": schedule, "precision": precision}
        row["ms"] = round(milliseconds(seconds[key]) / 2, 1)
        row |= {"best ms": round(500 * min(seconds[key]), 1)}
        row["x reference"] = str(ratio(seconds["reference float32"], seconds[key]))
        row["GFLOP"] = round(operations / 2e9, 1)
        row["of the limit"] = str(limit(operations, seconds[key], seconds["product"]))
        naive = schedule == "reference"
        row["of it the head, %"] = "" if naive else str(ratio(seconds["head"], seconds[key], 100))
        often = 2 / TrainConfig.log_every  # the share of repetitions with a logged row
        row["meters on top, %"] = "" if naive else str(ratio(seconds["meters"], seconds[key], 100 * often))
        rows.append(row)
    return rows
