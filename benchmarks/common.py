"""What several benchmarks use: their options, the speed limit of the machine, and a session that has begun to learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pamd.configuration import configure
from pamd.measure import Ratio, learning_session, ratio
from pamd.training import Runtime
from pamd.training.session import Session

__all__ = ["ACTIONS", "TASK", "Options", "limit", "make_session", "matrix_product", "twice"]

TASK, ACTIONS = "cheetah_run", 6
"""The task of most benchmarks and its number of actions."""
_SIDE = 2048
"""The size of the square matrices whose product measures the peak speed of the machine."""


@dataclass(frozen=True)
class Options:
    """The options of `python -m benchmarks`."""

    threads: int
    repetitions: int
    """The number of measurements after one warm-up."""
    tasks: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    """The runs of `learning`; empty means all. `encoders` also reads the tasks and seeds."""
    limit_minutes: float = 60.0
    """The maximum training time of a run of `learning`."""
    runs: Path = Path("runs/bench-learning")
    """The parent directory of the runs of `learning`."""
    train: bool = True
    """Whether `learning` trains the runs that are not finished."""


def matrix_product() -> Callable[[], object]:
    """Return a function that computes a matrix product. It measures the speed of the machine in the same repetition."""
    left, right = torch.randn(_SIDE, _SIDE), torch.randn(_SIDE, _SIDE)
    return lambda: left @ right


def limit(operations: float, seconds: Sequence[float], product_seconds: Sequence[float]) -> Ratio:
    """Return the rate of `operations` in `seconds` as a share of the rate of the matrix product."""
    return ratio(product_seconds, seconds, operations / (2 * _SIDE**3))


def twice(run: Callable[[], object]) -> Callable[[], object]:
    """Return a function that calls `run` twice, because the actor learns in every second update."""
    return lambda: (run(), run())


def make_session(
    method: str,
    scale: str,
    schedule: str,
    threads: int,
    capacity: int = 10_000,
    storage: str = "memory",
    directory: Path | None = None,
) -> AbstractContextManager[Session]:
    """Return a session of a run on the CPU that has begun to learn. Its files are in `directory`."""
    sizes: dict[str, Any] = {"decisions": capacity, "capacity": capacity, "storage": storage}
    config = configure(TASK, method, scale=scale, schedule=schedule, **sizes, runtime=Runtime(device="cpu"))
    return learning_session(config, threads, directory=directory)
