"""Measure time and operations on this machine, for `pamd bench`, the paper's cost tables and the benchmarks.

Contenders take turns in one process, so that load on the machine slows all of them equally. Numbers are medians over
repetitions, and ratios are computed within each repetition. Times are never asserted.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from pamd import atomic_io
from pamd.agent import Agent
from pamd.configuration import configure
from pamd.distances import Distance
from pamd.runs import RunDirectory
from pamd.runs.versions import processor
from pamd.settings import override
from pamd.table import Table
from pamd.training.config import TrainConfig
from pamd.training.loop import decide, learn
from pamd.training.process import Stopwatch, torch_threads
from pamd.training.session import Session
from pamd.types import Batch

_TASK, _ACTIONS = "cheetah_run", 6
_RANDOM = 150
"""The least number of decisions before the first update."""


@dataclass(frozen=True)
class Ratio:
    """Median and quartiles of the ratios, each computed within one repetition."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def interleave(
    runs: Mapping[str, Callable[[], object]], repetitions: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Return the seconds of each run in each repetition.

    In a repetition, each run is executed once, so that load on the machine slows all of them equally.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repetitions + 1):
        for name, run in runs.items():
            start = clock()
            run()
            if turn:  # The first repetition is a warm-up.
                seconds[name].append(clock() - start)
    return seconds


def ratio(above: Sequence[float], below: Sequence[float], factor: float = 1.0) -> Ratio:
    """Return `factor` times the ratio of `above` to `below` in each repetition."""
    each = [factor * a / b for a, b in zip(above, below, strict=True)]
    if len(each) < 2:
        return Ratio(each[0], each[0], each[0])
    low, middle, high = statistics.quantiles(each, n=4, method="inclusive")
    return Ratio(middle, low, high)


def milliseconds(seconds: Sequence[float]) -> float:
    """Return the median in milliseconds."""
    return round(1e3 * statistics.median(seconds), 3)


def count_operations(run: Callable[[], object]) -> float:
    """Count the floating-point operations of matrix products and convolutions in `run`."""

    def convolution(x: Any, weight: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
        # Two operations per multiplication. All arguments are shapes, as the counter requires.
        batch, out, height, width = out_shape
        return 2 * int(batch * height * width * out * math.prod(weight[1:]))

    fused = torch.ops.mkldnn._convolution_pointwise  # The counter does not know this convolution.
    with FlopCounterMode(display=False, custom_mapping={fused: convolution}) as counter:
        run()
    return float(counter.get_total_flops())


def make_agent(method: str, **options: Any) -> Agent:
    """Make an agent for cheetah_run at paper scale. `options` are arguments of `configure`."""
    config = configure(_TASK, method, **{"scale": "paper", "schedule": "sequential", **options})
    return Agent(config.agent, observation_shape=config.env.picture_shape, action_dim=_ACTIONS, seed=0)


def make_batch(scale: str = "paper") -> Batch:
    """Make a batch of noise with the memory layout of the replay, in which states and next states share frames."""
    config = configure(_TASK, scale=scale)
    draw, env, size = torch.Generator().manual_seed(0), config.env, config.learner.options.batch
    frames = torch.randint(
        0, 256, (size, env.frame_stack + 1, 3, env.size, env.size), dtype=torch.uint8, generator=draw
    )
    obs, next_obs = (part.flatten(1, 2) for part in (frames[:, :-1], frames[:, 1:]))
    action = torch.rand(size, _ACTIONS, generator=draw) * 2 - 1
    return Batch(obs, action, torch.rand(size, generator=draw), next_obs, torch.ones(size))


def head_update(distance: Distance[Any], batch: int) -> Callable[[], None]:
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


@contextmanager
def learning_session(
    config: TrainConfig, threads: int, warm_up: int = 4, directory: Path | None = None
) -> Iterator[Session]:
    """Yield a session of `config` that has begun to learn. Its temporary directory is created in `directory`.

    The random phase is shortened to what a batch needs. No log row is due, and no evaluation or checkpoint is made.
    """
    first = max(_RANDOM, config.learner.options.batch + 22)
    settings = (
        f"decisions={max(config.decisions, 2 * first)}",
        f"learner.random_decisions={first}",
        "learner.first_updates=1",
        "log_every=1000000000",
    )
    runtime = replace(config.runtime, threads=threads, video="off", tensorboard=False, wandb=None)
    config = replace(override(config, settings), runtime=runtime)
    with tempfile.TemporaryDirectory(dir=directory) as runs, torch_threads(threads):
        session = Session(RunDirectory(Path(runs)), config, threads)
        try:
            session.begin()
            clock = Stopwatch()
            while session.budget.decisions < first + warm_up:
                train_once(session, clock)
            yield session
        finally:
            session.close()


def train_once(session: Session, clock: Stopwatch | None = None) -> None:
    """Make one decision and the updates that are due after it."""
    clock = clock or Stopwatch()
    decide(session, clock)
    learn(session, clock)


def machine(threads: int) -> dict[str, Any]:
    """Describe this machine and the versions that matter for a speed."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def measured_text(table: Table, threads: int) -> str:
    """Return a table, its notes and the machine as text."""
    about = ", ".join(f"{key} {value}" for key, value in machine(threads).items() if value is not None)
    lines = [f"{table.name}: {table.title}", "", table.text(), "", *(f"  {note}" for note in table.notes), f"  {about}"]
    return "\n".join(lines)


def write_measured(table: Table, path: Path, threads: int, repetitions: int) -> None:
    """Write a table as JSON, with a description of the machine."""
    content = {
        "benchmark": table.name,
        "title": table.title,
        "machine": machine(threads),
        "repetitions": repetitions,
        "rows": table.records(),
        "notes": list(table.notes),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_io.write(path, (json.dumps(content, indent=1) + "\n").encode())
