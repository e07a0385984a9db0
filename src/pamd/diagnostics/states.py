"""Collect new states of a run's environment under its policy, including the simulator's state."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pamd.diagnostics.base import Progress, quiet
from pamd.envs import EnvConfig, observes_states
from pamd.envs.config import Split
from pamd.envs.distractors.task import Distracted
from pamd.errors import ConfigError
from pamd.training import Trained

_SPLITS: tuple[Split, ...] = ("train", "unseen")
_SEED_OFFSET = 2_000_003
"""An offset added to a run's seed, so that the episodes differ from those of training and evaluation."""


@dataclass(frozen=True)
class States:
    """N states, in the order in which they were visited."""

    obs: NDArray[np.uint8]
    """[N, k*C, H, W]"""
    picture: NDArray[np.uint8]
    """[N, H, W, 3]: the newest frame"""
    reward: NDArray[np.float64]
    """[N]: the reward of the decision taken in each state"""
    value: NDArray[np.float64]
    """[N]: min(Q1, Q2) of the run's critic for the policy's mode"""
    episode: NDArray[np.int64]
    """[N]"""
    decision: NDArray[np.int64]
    """[N]: the index in the episode"""
    simulator: NDArray[np.float64] | None
    """[N, S]: positions and velocities; None if the simulator does not provide them"""
    views: dict[str, tuple[NDArray[np.uint8], NDArray[np.uint8]]]
    """"train" and "unseen" -> the same states with two backgrounds of that split, [N, k*C, H, W] each. It is empty
    unless the task has a distractor with clips."""

    def __len__(self) -> int:
        return len(self.obs)


def _simulator_state(env: Any) -> NDArray[np.float64] | None:
    """Return the simulator state [S]: positions and velocities of dm_control, or positions of toy; otherwise None."""
    task = env.unwrapped.task
    if hasattr(task, "physics"):
        return np.array(task.physics.get_state(), dtype=np.float64)
    if hasattr(task, "position") and hasattr(task, "target"):
        return np.concatenate([task.position, task.target]).astype(np.float64)
    return None


@torch.no_grad()
def play(run: Trained, count: int, *, episodes: int = 4, seed: int = 0, progress: Progress = quiet) -> States:
    """Collect about `count` states, evenly spaced over `episodes` episodes of the run's exploring policy."""
    if count < 8 or episodes < 1:
        raise ConfigError(f"at least 8 states of at least 1 episode are required, got {count} of {episodes}")
    if observes_states(run.config.env.task):
        raise ConfigError(f"{run.config.env.task} observes states; this diagnostic requires a task with images")
    env = run.make_env(run.config.seed + _SEED_OFFSET + seed)
    rows: list[dict[str, Any]] = []
    try:
        for episode in range(episodes):
            rows += _spread(_episode(run, env, episode), -(-count // episodes))
            progress("playing episodes", episode + 1, episodes)
    finally:
        env.close()
    if len(rows) < 8:
        raise ConfigError(f"{episodes} episodes gave {len(rows)} states, at least 8 are required; increase episodes")
    plain = ("obs", "episode", "decision", "reward")
    joined: dict[str, Any] = {name: np.stack([row[name] for row in rows]) for name in plain}
    joined["views"] = {
        split: (np.stack([row["views"][split, 0] for row in rows]), np.stack([row["views"][split, 1] for row in rows]))
        for split in sorted({split for split, _ in rows[0]["views"]})
    }
    simulator = None if rows[0]["simulator"] is None else np.stack([row["simulator"] for row in rows])
    pictures = np.ascontiguousarray(joined["obs"][:, -3:].transpose(0, 2, 3, 1))
    return States(**joined, picture=pictures, value=_values(run, joined["obs"]), simulator=simulator)


def _episode(run: Trained, env: Any, episode: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    obs, _ = env.reset()
    backdrops = _Backdrops(env, run.config.env)
    over = False
    while not over:
        row = {"obs": obs, "episode": episode, "decision": len(rows), "simulator": _simulator_state(env)}
        row["views"] = backdrops.observe()
        obs, reward, terminated, truncated, _ = env.step(run.agent.act(obs, explore=True))
        rows.append({**row, "reward": float(reward)})
        over = terminated or truncated
    return rows


class _Backdrops:
    """Stacked observations of an episode with other backgrounds than the policy sees."""

    def __init__(self, env: Any, config: EnvConfig) -> None:
        task, self._size = env.unwrapped.task, config.size
        clips = isinstance(task, Distracted) and task.config.has_clips
        self._task = task
        # At the start of an episode, the first frame is repeated, as in the environment.
        self._stacks: dict[tuple[Split, int], deque[NDArray[np.uint8]]] = {
            (split, variant): deque(maxlen=config.frame_stack) for split in _SPLITS for variant in (0, 1) if clips
        }

    def observe(self) -> dict[tuple[Split, int], NDArray[np.uint8]]:
        """Return the current state [k*C, H, W] with each background."""
        for (split, variant), stack in self._stacks.items():
            frame = self._task.draw_on_clip(split, self._size, variant).transpose(2, 0, 1)
            stack.extend([frame] * (1 if stack else stack.maxlen or 1))
        return {key: np.concatenate(list(stack)) for key, stack in self._stacks.items()}


def _spread(rows: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    kept = np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(int))
    return [rows[i] for i in kept]


def _values(run: Trained, obs: NDArray[np.uint8]) -> NDArray[np.float64]:
    encoder, parts = run.agent.representation.encoder, []
    for chunk in torch.as_tensor(obs).split(256):
        features = encoder.trunk(chunk)
        parts.append(run.agent.learner.value(features, encoder.head(features)))
    return torch.cat(parts).numpy().astype(np.float64)
