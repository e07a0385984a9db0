"""Train with a memory-mapped replay of a million transitions, filled as far as the disk allows."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Options, make_session
from benchmarks.replay import page_by_page
from pamd.errors import ResourceError
from pamd.measure import milliseconds
from pamd.replay import Replay, available_disk
from pamd.table import Table
from pamd.training.loop import decide, learn
from pamd.training.process import Stopwatch

__all__ = ["measure"]

ON_REQUEST = "fills the disk with up to a million frames"
CAPACITY = 1_000_000
EPISODE = 250
CHECKPOINTS = 5
"""The number of fill levels at which memory is measured."""


def measure(options: Options) -> Table:
    here = Path.cwd()
    with make_session(
        "simsr+pamd", "paper", "joint", options.threads, capacity=CAPACITY, storage="mmap", directory=here
    ) as session:
        frame_bytes = int(np.prod(session.replay.layout.frame_shape))
        # Keep a tenth of the disk free. The file is sparse, so only written frames take space.
        frames = min(CAPACITY, int(0.9 * available_disk(here) / frame_bytes))
        if frames < 2 * EPISODE * CHECKPOINTS:
            raise ResourceError(f"capacity: the disk of {here} has room for only {frames} frames: too few")
        rows = []
        for _ in range(CHECKPOINTS):
            _fill(session.replay, frames // CHECKPOINTS)
            # The frames from `_fill` do not belong to the current episode of the environment, so begin a new one.
            session.begin_episode()
            rows.append(_row(session, options))
    notes = (
        "own: anonymous memory of the process (weights, activations, batches, simulator); cached: file pages, which "
        "the system can reclaim.",
        f"{frames:,} frames of noise were written; a batch is drawn from all of them.",
        "page by page: the same number of frames from a plain memory map, measured alternately.",
    )
    title = f"training with a memory-mapped replay of {CAPACITY:,}, paper scale"
    return Table.from_records("capacity", title, rows, notes)


def _fill(replay: Replay, frames: int) -> None:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (8, *replay.layout.frame_shape), dtype=np.uint8)
    action = np.zeros(replay.layout.action_dim, np.float32)
    for i in range(frames):
        frame = noise[i % 8] + np.uint8(i // 8 % 256)
        if i % EPISODE == 0:
            replay.start(frame)
        else:
            replay.add(action, 0.0, False, frame)


def _row(session: Any, options: Options) -> dict[str, Any]:
    clock, size = Stopwatch(), session.config.learner.options.batch
    plain = page_by_page(session.replay, session.run.replay, size)
    seconds: dict[str, list[float]] = {"sample": [], "page by page": [], "update": []}
    for _ in range(options.repetitions):
        decide(session, clock)
        rng = np.random.default_rng(session.replay.written)
        runs: dict[str, Callable[[], object]] = {
            "sample": partial(session.replay.sample, size, rng, buffer=1),
            "page by page": partial(plain, rng),
            "update": partial(learn, session, clock),
        }
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    memory = _memory()
    return {
        "transitions": len(session.replay),
        "file GB": round(session.replay.written * int(np.prod(session.replay.layout.frame_shape)) / 1e9, 1),
        "own GB": round(memory["RssAnon"] / 1e9, 2),
        "cached GB": round(memory["RssFile"] / 1e9, 2),
        **{f"{name} ms": round(milliseconds(taken), 1) for name, taken in seconds.items()},
    }


def _memory() -> dict[str, int]:
    """Return the memory of this process in bytes by kind, as reported by Linux."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        raise ResourceError("capacity reads /proc/self/status, which this system does not have") from None
    sizes = dict(line.split(":", 1) for line in lines if line.startswith("Rss"))
    return {name: 1024 * int(size.split()[0]) for name, size in sizes.items()}
