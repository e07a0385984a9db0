"""The time of a frame with a distractor, compared with a plain frame of the same simulator state."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Options
from pamd.envs import make_env
from pamd.envs.distractors.cache import forecast
from pamd.envs.dmc import ACTION_REPEATS
from pamd.measure import interleave, milliseconds, ratio
from pamd.table import Table

__all__ = ["measure"]

PRESETS = ("paper-video", "released-video", "easy", "medium", "hard", "noise", "color")
SIZE = 84
TURNS_EACH = 8
"""The factor on the number of repetitions, because one frame takes little time. Each repetition has a new state."""


def measure(options: Options) -> Table:
    with _empty_cache():
        clips = _clips()
        rows = [row for task in (*ACTION_REPEATS, "reacher_easy") for row in _rows(task, options)]
    notes = (
        f"{SIZE} x {SIZE}, render fast: drawing, mask, background and blend; x clean: median (quartiles).",
        f"clip cache: {clips}",
    )
    return Table.from_records("distractors", "one frame with a distracting background", rows, notes)


def _rows(task: str, options: Options) -> list[dict[str, Any]]:
    with ExitStack() as stack:
        envs = {}
        for name in (None, *PRESETS):
            env = make_env(task, distractor=name, size=SIZE, render="fast", frame_stack=1)
            stack.callback(env.close)
            env.reset()
            envs[name or "clean"] = env
        rng = np.random.default_rng(0)

        def step_all() -> None:
            action = rng.uniform(-1, 1, envs["clean"].action_space.shape).astype(np.float32)
            for env in envs.values():
                env.step(action)

        runs: dict[str, Callable[[], object]] = {"step": step_all}
        runs |= {name: _drawing(env) for name, env in envs.items()}
        seconds = interleave(runs, TURNS_EACH * options.repetitions)
    return [
        {
            "task": task,
            "distractor": name,
            "ms": milliseconds(seconds[name]),
            "x clean": str(ratio(seconds[name], seconds["clean"])),
        }
        for name in envs
    ]


def _drawing(env: Any) -> Callable[[], object]:
    task = env.unwrapped.task
    return lambda: task.draw(SIZE)


def _clips() -> str:
    """Report the size of the decoded clips, compared with the forecast."""
    start = time.perf_counter()
    env = make_env("toy", size=SIZE, distractor="paper-video")
    taken = time.perf_counter() - start
    behind = env.unwrapped.task.config  # type: ignore[attr-defined]
    count = len(behind.train) + len(behind.unseen)
    used = sum(path.stat().st_size for path in Path(os.environ["PAMD_CACHE"], "clips").iterdir())
    most = forecast(count, SIZE, behind.frames)
    return f"{count} clips, forecast {most / 1e6:.0f} MB, used {used / 1e6:.0f} MB, decoded in {taken:.1f} s"


@contextmanager
def _empty_cache() -> Iterator[None]:
    before = os.environ.get("PAMD_CACHE")
    with tempfile.TemporaryDirectory() as directory:
        os.environ["PAMD_CACHE"] = directory
        try:
            yield
        finally:
            os.environ.pop("PAMD_CACHE")
            if before is not None:
                os.environ["PAMD_CACHE"] = before
