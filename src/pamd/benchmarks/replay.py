"""Sampling and memory of a transition beside stacked observations."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pamd.benchmarks.measure import Options, Table, interleave, milliseconds, ratio
from pamd.benchmarks.update import ACTIONS, batch_of, make_agent
from pamd.methods import scale
from pamd.replay import Replay, ReplayConfig, forecast

__all__ = ["measure"]

FRAME, STACK, BATCH, FILLED, EPISODE = (3, 84, 84), 3, 128, 4000, 250


def measure(options: Options) -> Table:
    with tempfile.TemporaryDirectory() as directory, _replays(Path(directory)) as replays:
        rng = np.random.default_rng(0)
        runs: dict[str, Callable[[], object]] = {"stacked (yardstick)": _stacked(rng)}
        runs |= {f"frames once, {name}": _sampling(replay, rng) for name, replay in replays.items()}
        agent, batch = make_agent("simsr+pamd", "joint"), batch_of(scale("paper"))
        seconds = interleave(runs | {"update": lambda: agent.update(batch)}, options.repetitions)
    rows = []
    for name in runs:
        row: dict[str, Any] = {"storage": name, "ms": milliseconds(seconds[name])}
        row["x yardstick"] = str(ratio(seconds["stacked (yardstick)"], seconds[name]))
        row["% of an update"] = str(ratio(seconds[name], seconds["update"], 100.0))
        row["KB a transition"] = _kilobytes(name)
        rows.append(row)
    notes = (
        f"{BATCH} transitions of {STACK} + {STACK} frames {FRAME}, out of {FILLED}; an update is simsr+pamd, joint, at "
        "paper scale.",
        "KB a transition: of a million, from the forecast that every run makes before it starts.",
    )
    return Table("replay", f"one batch of {BATCH}, {options.threads} threads", rows, notes)


def _sampling(replay: Replay, rng: np.random.Generator) -> Callable[[], object]:
    return lambda: replay.sample(BATCH, rng)


def _stacked(rng: np.random.Generator) -> Callable[[], object]:
    """Observation and next observation of each transition, each stacked, as research code keeps them."""
    shape = (FILLED, STACK * FRAME[0], *FRAME[1:])
    obs, next_obs = (rng.integers(0, 256, shape, dtype=np.uint8) for _ in range(2))

    def run() -> None:
        chosen = rng.integers(0, FILLED, BATCH)
        torch.as_tensor(obs[chosen])
        torch.as_tensor(next_obs[chosen])

    return run


def _kilobytes(name: str) -> float:
    if name.startswith("stacked"):
        return round(2 * STACK * int(np.prod(FRAME)) / 1000, 1)
    cost = forecast(ReplayConfig(1_000_000), FRAME, ACTIONS, 0)
    return round(cost.bytes_per_transition / 1000, 1)


@contextmanager
def _replays(directory: Path) -> Iterator[dict[str, Replay]]:
    made = {}
    for storage in ("memory", "mmap"):
        replay = Replay.create(
            ReplayConfig(FILLED + FILLED // EPISODE + 1, storage),
            frame_shape=FRAME,
            action_dim=ACTIONS,
            frame_stack=STACK,
            margin=FILLED,
            directory=directory / storage,
        )
        draw = np.random.default_rng(0)
        for i in range(FILLED):
            frame = draw.integers(0, 256, FRAME, dtype=np.uint8)
            if i % EPISODE == 0:
                replay.start(frame)
            replay.add(draw.uniform(-1, 1, ACTIONS).astype(np.float32), 0.0, False, frame)
        made[storage] = replay
    yield made
