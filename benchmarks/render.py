"""Time per frame and per decision, compared with dm_control's own renderer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.common import Options
from pamd.envs import make_env
from pamd.measure import interleave, milliseconds, ratio
from pamd.table import Table

__all__ = ["measure"]

TASKS = ("cheetah_run", "walker_walk", "finger_spin", "cartpole_swingup")
FRAMES = 4
"""Frames per repetition. A single frame takes too little time to measure."""


def measure(options: Options) -> Table:
    rows = [row for task in TASKS for row in _rows(task, options)]
    notes = (
        "reference: dm_control's `physics.render` with shadows, reflections and multisampling, as in research code.",
        "standard: the same pixels, drawn by mujoco.Renderer. fast: no shadows, reflections or multisampling.",
        "decision: action repeat 4, physics and frame stack included; frame: the picture alone.",
    )
    return Table.from_records("render", f"84 x 84 frames, {options.threads} threads", rows, notes)


def _rows(task: str, options: Options) -> list[dict[str, Any]]:
    envs = {quality: make_env(task, render=quality, action_repeat=4, seed=0) for quality in ("standard", "fast")}
    thread = ThreadPoolExecutor(1)
    try:
        for env in envs.values():
            env.reset()
        runs: dict[str, Callable[[], object]] = {"reference": _reference(envs["standard"], thread)}
        for quality, env in envs.items():
            runs[f"{quality}, frame"] = _drawing(env)
            runs[f"{quality}, decision"] = _stepping(env)
        seconds = interleave(runs, options.repetitions)
    finally:
        thread.submit(envs["standard"].unwrapped.task.physics.free).result()  # type: ignore[attr-defined]
        thread.shutdown()
        for env in envs.values():
            env.close()
    rows = []
    for name, taken in seconds.items():
        row: dict[str, Any] = {"task": task, "what": name, "ms": round(milliseconds(taken) / FRAMES, 2)}
        row["x reference"] = str(ratio(seconds["reference"], taken))
        standard = name.replace("fast", "standard")
        row["x standard"] = str(ratio(seconds[standard], taken))
        rows.append(row)
    return rows


def _reference(env: Any, thread: ThreadPoolExecutor) -> Callable[[], object]:
    physics = env.unwrapped.task.physics

    def draw() -> None:
        for _ in range(FRAMES):
            physics.render(height=84, width=84, camera_id=0)

    # Use a separate thread: dm_control assumes that its OpenGL context is still current and would draw into the last
    # context that was used.
    return lambda: thread.submit(draw).result()


def _drawing(env: Any) -> Callable[[], object]:
    task = env.unwrapped.task
    return lambda: [task.draw(84) for _ in range(FRAMES)]


def _stepping(env: Any) -> Callable[[], object]:
    action = np.zeros(env.action_space.shape, np.float32)
    return lambda: [env.step(action) for _ in range(FRAMES)]
