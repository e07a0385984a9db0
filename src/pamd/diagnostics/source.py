"""The data source of a diagnostic: a run, a saved replay, or a newly collected replay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pamd.envs import EnvConfig, build_env
from pamd.errors import ConfigError, ReplayError, RunError, ShapeError
from pamd.replay import Replay, ReplayConfig

__all__ = ["Drawn", "Progress", "choose", "collect", "open_replay", "quiet"]

Progress = Callable[[str, int, int], None]
"""Called with the name of the task, the finished steps and the total."""


Drawn = Literal["first", "newest", "spread"]
"""The first transitions of a replay, the newest ones, or a random sample."""


def quiet(what: str, done: int, total: int) -> None:
    """Do nothing: the default `Progress`."""


def open_replay(path: Path) -> Replay:
    """Open the replay of the run in `path`, or the replay in `path`, read-only and memory-mapped."""
    place = path / "replay" if (path / "config.json").is_file() else path
    if not place.is_dir():
        raise RunError(f"{path} is neither a run directory nor a saved replay")
    replay = Replay.open(place, read_only=True, storage="mmap")
    if len(replay.layout.frame_shape) != 3:
        raise ShapeError(f"the replay in {place} contains states; this diagnostic requires images")
    _, height, width = replay.layout.frame_shape
    if height != width:
        raise ShapeError(f"the encoder requires square images, but the replay in {place} has {height} x {width}")
    return replay


def choose(replay: Replay, count: int | None, drawn: Drawn, rng: np.random.Generator) -> NDArray[np.int64]:
    """Choose `count` different transitions [N] of a replay for `Replay.take`; None chooses all.

    The first and newest transitions are consecutive.
    """
    held = replay.transitions()
    if count is None:
        count = len(held)
    if not 2 <= count <= len(held):
        raise ReplayError(f"{max(count, 2)} transitions are required, but the replay holds {len(held)}")
    if drawn == "spread":
        return np.sort(rng.choice(held, count, replace=False))
    return held[:count] if drawn == "first" else held[len(held) - count :]


def collect(env_config: EnvConfig, transitions: int, seed: int, progress: Progress = quiet) -> Replay:
    """Collect a replay in memory with `transitions` decisions of a random policy."""
    if transitions < 2:
        raise ConfigError(f"at least 2 transitions must be collected, got {transitions}")
    env = build_env(env_config, seed=seed)
    rng = np.random.default_rng(seed)
    try:
        channels, height, width = env.observation_space.shape or ()
        stack, (action_dim,) = env_config.frame_stack, env.action_space.shape or (0,)
        replay = Replay.create(
            ReplayConfig(2 * transitions + stack + 1),  # Leave room for the first frame of every episode.
            frame_shape=(channels // stack, height, width),
            action_dim=action_dim,
            frame_stack=stack,
        )
        over = True
        for decision in range(transitions):
            if over:
                replay.start(env.reset()[1]["frame"])
            action = rng.uniform(-1.0, 1.0, action_dim).astype(np.float32)
            _, reward, terminated, truncated, info = env.step(action)
            replay.add(action, float(reward), terminated, info["frame"])
            over = terminated or truncated
            progress(f"collecting {env_config.task}", decision + 1, transitions)
    finally:
        env.close()
    return replay
