"""Utilities shared by all benchmarks: interleaved timing, medians, quartiles and a description of the machine."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pamd import durable
from pamd.table import Table

__all__ = [
    "Options",
    "Ratio",
    "interleave",
    "limit",
    "machine",
    "matrix_product",
    "milliseconds",
    "ratio",
    "write_measured",
]

_SIDE = 2048
"""The size of the square matrices whose product measures the peak speed of the machine."""


@dataclass(frozen=True)
class Options:
    threads: int
    repetitions: int
    """The number of measurements after one warm-up."""
    directory: Path | None = None
    """The directory of the results. `kills` continues from existing results."""
    most_runs: int = 1_000_000
    minutes: float = 40.0
    interruptions: int = 1_000
    """The limits of `kills`. It stops at the first one reached."""
    decisions: int = 20_000
    """The budget of the run of `soak`."""
    tasks: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    """The runs of `learning`; empty means all. `encoders` also reads the tasks and seeds."""
    limit_minutes: float = 60.0
    """The maximum training time of a run of `learning`."""
    runs_in: Path | None = None
    """The parent directory of the runs of `learning`."""
    train: bool = True
    """Whether `learning` trains the runs that are not finished."""


@dataclass(frozen=True)
class Ratio:
    """Median and quartiles of the ratios, each computed within one repetition."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def write_measured(table: Table, path: Path, options: Options) -> None:
    """Write `table` as JSON, with a description of the machine."""
    content = {
        "benchmark": table.name,
        "title": table.title,
        "machine": machine(options.threads),
        "repetitions": options.repetitions,
        "rows": table.records(),
        "notes": list(table.notes),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    durable.write(path, (json.dumps(content, indent=1) + "\n").encode())


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
    return round(1e3 * statistics.median(seconds), 3)


def matrix_product() -> Callable[[], object]:
    """Return a function that computes a matrix product. It measures the speed of the machine in the same repetition."""
    left, right = torch.randn(_SIDE, _SIDE), torch.randn(_SIDE, _SIDE)
    return lambda: left @ right


def limit(operations: float, seconds: Sequence[float], product_seconds: Sequence[float]) -> Ratio:
    """Return the rate of `operations` in `seconds` as a share of the rate of the matrix product."""
    return ratio(product_seconds, seconds, operations / (2 * _SIDE**3))


def machine(threads: int) -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
