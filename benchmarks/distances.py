"""Every distance in an update, compared with PAMD, in CPU time."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import pamd
from benchmarks.common import ACTIONS, Options
from pamd.agent import Agent
from pamd.configuration import configure
from pamd.measure import count_operations, interleave, milliseconds, ratio
from pamd.table import Table
from pamd.types import Batch, NStep, Pairs

__all__ = ["measure"]

DIMENSION, BATCH, STATE = 50, 128, 24
TASKS = {"cpu": "cheetah_run", "state": "state:walker_walk"}
"""The task of each scale. Only the shapes of its observations matter: the batch is noise."""
PASSES, UPDATES = 5, 4
"""Passes of a head and updates of an agent per repetition."""
clock = time.process_time


def measure(options: Options) -> Table:
    names = pamd.DISTANCES.names()
    heads = {name: _head(name) for name in names}
    columns = {"head": interleave({n: _times(run, PASSES) for n, run in heads.items()}, options.repetitions, clock)}
    for scale in TASKS:
        batch = _batch(scale)
        updates = {name: _times(partial(_agent(scale, name).update, batch), UPDATES) for name in names}
        columns[f"update, {scale}"] = interleave(updates, options.repetitions, clock)
    rows = []
    for name in names:
        size = sum(p.numel() for p in pamd.distance(name, latent_dim=DIMENSION).parameters())
        row: dict[str, Any] = {"distance": name, "parameters": size}
        row["MFLOP"] = round(count_operations(heads[name]) / 1e6, 1)
        row["ms"] = round(milliseconds(columns["head"][name]) / PASSES, 2)
        rows.append(row | {title: str(ratio(each[name], each["pamd"])) for title, each in columns.items()})
    notes = (
        f"head: forward and backward of {BATCH} pairs of one batch at d = {DIMENSION}, over the time of pamd; median"
        " (quartiles). ms and MFLOP (matrix products only) are of it.",
        "update, SCALE: an update of dbc-det+DISTANCE at this scale, over the time of dbc-det+pamd.",
        "The clock is the processor time of the process, so that other work on the machine counts little.",
    )
    return Table.from_records("distances", f"every distance, {options.threads} threads", rows, notes)


def _times(run: Callable[[], object], count: int) -> Callable[[], object]:
    return lambda: [run() for _ in range(count)]


def _head(name: str) -> Callable[[], object]:
    """Return a function that measures the pairs of a batch and computes the gradients of latents and weights."""
    torch.manual_seed(0)
    distance, z = pamd.distance(name, latent_dim=DIMENSION), torch.randn(BATCH, DIMENSION)
    generator = torch.Generator().manual_seed(0)
    pairs, target = Pairs.permutation(BATCH, generator), torch.rand(BATCH)

    def run() -> None:
        latents = z.clone().requires_grad_()
        distance.zero_grad()
        value, penalty, _ = distance.measure_between(latents, latents, pairs, generator)
        loss = (value - (target if value.ndim == 1 else target[:, None])).square().mean() + penalty
        loss.backward()

    return run


def _agent(scale: str, name: str) -> Agent:
    config = configure(TASKS[scale], f"dbc-det+{name}", scale=scale)
    shape = (STATE,) if scale == "state" else config.env.picture_shape
    return Agent(config.agent, observation_shape=shape, action_dim=ACTIONS, seed=0)


def _batch(scale: str) -> Batch:
    """Make a batch of noise."""
    config = configure(TASKS[scale], scale=scale)
    draw, size, n_step = torch.Generator().manual_seed(0), config.learner.options.batch, config.learner.options.n_step

    def observations() -> torch.Tensor:
        if scale == "state":
            return torch.randn(size, STATE, generator=draw)
        return torch.randint(0, 256, (size, *config.env.picture_shape), dtype=torch.uint8, generator=draw)

    later = NStep(torch.rand(size, generator=draw), observations(), torch.full((size,), 0.97)) if n_step > 1 else None
    action, reward = torch.rand(size, ACTIONS, generator=draw) * 2 - 1, torch.rand(size, generator=draw)
    return Batch(observations(), action, reward, observations(), torch.ones(size), n_step=later)
