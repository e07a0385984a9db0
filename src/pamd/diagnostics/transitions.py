"""The transitions of a diagnostic: of a run, a saved replay or a new one; and their latents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pamd.diagnostics.base import Progress, quiet
from pamd.envs import EnvConfig, build_env
from pamd.errors import ConfigError, ReplayError, RunError, ShapeError
from pamd.replay import Replay, ReplayConfig
from pamd.types import Latents

Drawn = Literal["first", "newest", "spread"]
"""The first transitions of a replay, the newest ones, or a random sample."""

Encode = Callable[[Tensor], Latents]
"""Maps rows [B] of the transitions to their latents."""

Rewards = Literal["as-is", "over-maximum", "over-magnitude"]
"""Unchanged, divided by the largest r, or divided by the largest |r|."""

_CHUNK = 256


def open_replay(path: Path) -> Replay:
    """Open the replay of the run in `path`, or the replay in `path`, read-only and memory-mapped."""
    directory = path / "replay" if (path / "config.json").is_file() else path
    if not directory.is_dir():
        raise RunError(f"{path} is neither a run directory nor a saved replay")
    replay = Replay.open(directory, read_only=True, storage="mmap")
    if len(replay.layout.frame_shape) != 3:
        raise ShapeError(f"the replay in {directory} contains states; this diagnostic requires images")
    _, height, width = replay.layout.frame_shape
    if height != width:
        raise ShapeError(f"the encoder requires square images, but the replay in {directory} has {height} x {width}")
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


def reward_scale(reward: Tensor, rewards: Rewards) -> float:
    """Return the divisor of rewards [N]; 1 if it would be 0."""
    if rewards == "as-is":
        return 1.0
    return float((reward if rewards == "over-maximum" else reward.abs()).max()) or 1.0


class Transitions:
    """N transitions of a replay, chosen once. Batches are read on demand."""

    def __init__(
        self,
        replay: Replay,
        count: int | None,
        drawn: Drawn,
        rewards: Rewards,
        origin: dict[str, Any],
    ) -> None:
        self._replay = replay
        self._chosen = choose(replay, count, drawn, np.random.default_rng(0))
        channels, self.size, _ = replay.layout.frame_shape
        self.channels = channels * replay.layout.frame_stack
        reward = torch.cat([self._take(rows).reward.clone() for rows in self._chunks()])
        scale = reward_scale(reward, rewards)
        self.reward = reward / scale
        """[N]"""
        self.description = {**origin, "transitions": len(self), "size": self.size, "reward_scale": scale}

    def __len__(self) -> int:
        return len(self._chosen)

    @torch.no_grad()
    def fixed(self, encoder: nn.Module) -> Encode:
        """Encode all transitions once with a frozen encoder, and return a lookup of their latents."""
        parts = [(encoder(batch.obs), encoder(batch.next_obs)) for batch in map(self._take, self._chunks())]
        z, z_next = (torch.cat(side) for side in zip(*parts, strict=True))
        return lambda rows: Latents(z=z[rows], reward=self.reward[rows], z_next=z_next[rows])

    def live(self, encoder: nn.Module) -> Encode:
        """Return a function that encodes transitions with a trainable encoder.

        Latents of next states have no gradient.
        """

        def encode(rows: Tensor) -> Latents:
            batch = self._take(rows)
            z = encoder(batch.obs)
            with torch.no_grad():
                z_next = encoder(batch.next_obs)
            return Latents(z=z, reward=self.reward[rows], z_next=z_next)

        return encode

    def _take(self, rows: Tensor) -> Any:
        return self._replay.take(self._chosen[rows.numpy()])

    def _chunks(self) -> tuple[Tensor, ...]:
        chunks: tuple[Tensor, ...] = torch.arange(len(self)).split(_CHUNK)
        return chunks
