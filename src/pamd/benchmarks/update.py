"""One update of the agent at paper scale, compared with a reference implementation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch.utils.flop_counter import FlopCounterMode

from pamd.agent import Agent
from pamd.benchmarks.measure import Options, interleave, limit, matrix_product, milliseconds, ratio
from pamd.benchmarks.naive import NaiveAgent
from pamd.configuration import configure
from pamd.distances import Distance
from pamd.methods import Fidelity
from pamd.representation.meters import read_meters
from pamd.table import Table
from pamd.training import TrainConfig
from pamd.training.allocator import keep_freed_memory, return_freed_memory
from pamd.types import Batch

__all__ = ["count_operations", "make_agent", "make_batch", "make_head_update", "measure", "repeat_twice", "twice"]

METHODS = ("simsr+pamd", "dbc-det+pamd")
TASK, ACTIONS = "cheetah_run", 6


def measure(options: Options) -> Table:
    rows = [row for name in METHODS for row in _rows(name, options)]
    notes = (
        "x reference: speedup over the reference implementation, measured in the same repetitions; median (quartiles).",
        "of the limit: FLOP/s of this update as a share of those of a 2048 x 2048 matrix product in the same "
        "repetition. The sequential schedule needs more operations than the joint one: compare times, not shares.",
        "of it the head: share of PAMD's forward on both sides, penalty, backward and Adam step in the update.",
        f"meters on top: cost of the logged metrics, which are computed every {TrainConfig.log_every} updates.",
        "memory kept: the reference with our allocator setting, which research code does not have; the second ratio is"
        " relative to this row and more conservative.",
        "A repetition is two updates, because the actor learns in every second one.",
    )
    return Table.from_records("update", f"one update, paper scale, {options.threads} threads", rows, notes)


def _rows(name: str, options: Options) -> list[dict[str, Any]]:
    batch = make_batch("paper")
    agents: dict[str, Any] = {
        "reference": NaiveAgent(make_agent(name, "sequential")),
        "sequential": make_agent(name, "sequential"),
        "joint": make_agent(name, "joint"),
    }
    runs: dict[str, Callable[[], object]] = {key: twice(agent, batch) for key, agent in agents.items()}
    kept = runs.pop("reference")
    runs = {"reference": returning_memory(kept), "reference, memory kept": kept, **runs}
    distance = agents["joint"].representation.distance
    head = make_head_update(distance, len(batch))
    runs |= {"head": repeat_twice(head), "product": matrix_product()}
    given = (batch.obs, batch.action, batch.reward, batch.next_obs)
    runs["meters"] = lambda: read_meters(agents["joint"].representation, *given)
    seconds = interleave(runs, options.repetitions)
    rows = []
    for key in list(runs)[:4]:
        operations = count_operations(runs[key])
        row = {"method": name, "schedule": key, "ms": round(milliseconds(seconds[key]) / 2, 1)}
        row |= {"best ms": round(500 * min(seconds[key]), 1)}
        row["x reference"] = str(ratio(seconds["reference"], seconds[key]))
        row["x reference, memory kept"] = str(ratio(seconds["reference, memory kept"], seconds[key]))
        row["GFLOP"] = round(operations / 2e9, 1)
        row["of the limit"] = str(limit(operations, seconds[key], seconds["product"]))
        ours = not key.startswith("reference")
        row["of it the head, %"] = str(ratio(seconds["head"], seconds[key], 100)) if ours else ""
        often = 2 / TrainConfig.log_every  # the share of repetitions with a logged row
        row["meters on top, %"] = str(ratio(seconds["meters"], seconds[key], 100 * often)) if ours else ""
        rows.append(row)
    return rows


def make_agent(
    name: str,
    schedule: Literal["sequential", "joint"] = "sequential",
    latent_dim: int = 50,
    at: str = "paper",
    fidelity: Fidelity = "paper",
) -> Agent:
    settings = (f"method.latent_dim={latent_dim}",)
    config = configure(TASK, name, scale=at, fidelity=fidelity, schedule=schedule, settings=settings)
    return Agent(config.agent, observation_shape=config.env.picture_shape, action_dim=ACTIONS, seed=0)


def make_batch(scale: str) -> Batch:
    """Make a batch of noise with the memory layout of the replay, in which states and next states share frames."""
    config = configure(TASK, scale=scale)
    draw, env, size = torch.Generator().manual_seed(0), config.env, config.learner.options.batch
    frames = torch.randint(
        0, 256, (size, env.frame_stack + 1, 3, env.size, env.size), dtype=torch.uint8, generator=draw
    )
    obs, next_obs = (part.flatten(1, 2) for part in (frames[:, :-1], frames[:, 1:]))
    action = torch.rand(size, ACTIONS, generator=draw) * 2 - 1
    return Batch(obs, action, torch.rand(size, generator=draw), next_obs, torch.ones(size))


def count_operations(run: Callable[[], object]) -> float:
    """Count the floating-point operations of matrix products and convolutions in `run`."""
    fused = torch.ops.mkldnn._convolution_pointwise
    with FlopCounterMode(display=False, custom_mapping={fused: _count_convolution}) as counter:
        run()
    return float(counter.get_total_flops())


def _count_convolution(x: Any, weight: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    """Count two operations per multiplication of a convolution. All arguments are shapes, as the counter requires."""
    batch, out, height, width = out_shape
    return 2 * int(batch * height * width * out * math.prod(weight[1:]))


def returning_memory(run: Callable[[], object]) -> Callable[[], None]:
    """Wrap `run` with the C library's default rule for freed memory, as in research code."""

    def wrapped() -> None:
        return_freed_memory()
        try:
            run()
        finally:
            keep_freed_memory()

    return wrapped


def make_head_update(distance: Distance[Any], batch: int) -> Callable[[], None]:
    """Return a function that does the work of the distance in one update: target, value, penalty, backward and Adam."""
    draw = torch.Generator().manual_seed(0)
    latents = [torch.randn(batch, distance.latent_dim, generator=draw) for _ in range(4)]
    target = torch.rand(batch, generator=draw)
    optimizer = torch.optim.Adam(distance.parameters(), fused=True)

    def run() -> None:
        with torch.no_grad():
            full_target = target + 0.99 * distance(latents[2], latents[3])
        z, z_prime = (x.detach().requires_grad_() for x in latents[:2])
        value, penalty, _ = distance.measure(z, z_prime, draw)
        optimizer.zero_grad()
        ((value - full_target).square().mean() + penalty).backward()
        optimizer.step()

    return run


def repeat_twice(run: Callable[[], object]) -> Callable[[], object]:
    """Return a function that calls `run` twice, because the actor learns in every second update."""
    return lambda: (run(), run())


def twice(agent: Any, batch: Batch) -> Callable[[], object]:
    return repeat_twice(lambda: agent.update(batch))
