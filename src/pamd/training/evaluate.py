"""Evaluation of the policy's mode in a separate environment with separate seeds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from pamd.agent import Agent
from pamd.envs import EnvConfig, build_env, unseen
from pamd.representation.meters import denoising_factors

if TYPE_CHECKING:
    from pamd.envs.wrappers import Episodes

__all__ = ["EVALUATION", "evaluate"]

EVALUATION = 1_000_003
"""The number added to a run's seed for evaluation. Every evaluation and every method uses the same episodes."""

VIDEO_SIZE = 240

VIEWS = 128
"""The maximum number of states for the denoising factors."""
VIEW_EVERY = 5
"""The number of decisions between these states."""

Video = list[NDArray[np.uint8]]


def evaluate(
    agent: Agent,
    env_config: EnvConfig,
    seed: int,
    episodes: int,
    *,
    record: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, Any], Video]:
    """Return a row with the returns of `episodes` episodes and, if `record`, the frames [H, W, 3] of the first.

    With a video distractor or noise dimensions, episodes are played twice: first as in training, then with videos or a
    noise mean that training never uses. The second results have keys that begin with `unseen_`. The second recording
    follows the first. With noise, the row includes the denoising factors. `stop` is called after every decision. If it
    returns True, the row is empty.
    """
    row, frames = _play(agent, env_config, seed, episodes, record, stop)
    other_config = unseen(env_config)
    if not row or other_config is None:
        return row, frames
    other, more = _play(agent, other_config, seed, episodes, record, stop)
    if not other:
        return {}, []
    clips = {} if env_config.distractor is None else {"clips": env_config.distractor.split}
    return {**row, **clips, **{f"unseen_{key}": value for key, value in other.items()}}, frames + more


class TwoViews:
    """The same states with two noise samples each, for the denoising factors."""

    def __init__(self, env: Episodes) -> None:
        self._env: Any = env.unwrapped
        stack = env.observation_space.shape[0] // env.unwrapped.observation_space.shape[0]  # type: ignore[index]
        self._newest: deque[NDArray[Any]] = deque(maxlen=stack)
        self._pairs: list[tuple[NDArray[Any], NDArray[Any]]] = []

    def look(self, obs: NDArray[Any], decision: int) -> None:
        """Record every `VIEW_EVERY`th observation of an episode, and the same state with different noise."""
        frame = self._env.observe(draw=1)
        self._newest.extend([frame] * (self._newest.maxlen or 1) if decision == 0 else [frame])
        if decision % VIEW_EVERY == 0 and len(self._pairs) < VIEWS:
            self._pairs.append((obs, np.concatenate(list(self._newest))))

    def factors(self, agent: Agent) -> dict[str, float]:
        """Compute the denoising factors of the agent's representation. Returns {} for fewer than two states."""
        if len(self._pairs) < 2:
            return {}
        obs, other = (torch.as_tensor(np.stack(view), device=agent.device) for view in zip(*self._pairs, strict=True))
        return denoising_factors(agent.measured, obs, other)


def _play(
    agent: Agent, env_config: EnvConfig, seed: int, episodes: int, record: bool, stop: Callable[[], bool]
) -> tuple[dict[str, Any], Video]:
    env = build_env(env_config, seed=seed + EVALUATION, render_size=VIDEO_SIZE)
    returns: list[float] = []
    lengths: list[int] = []
    frames: Video = []
    views = None if env_config.noise is None else TwoViews(env)
    try:
        for episode in range(episodes):
            obs, _ = env.reset()
            total, length, over = 0.0, 0, False
            while not over:
                if views is not None:
                    views.look(obs, length)
                if record and episode == 0:
                    frames.append(env.unwrapped.render())  # type: ignore[arg-type]
                obs, reward, terminated, truncated, _ = env.step(agent.act(obs, explore=False))
                total, length, over = total + float(reward), length + 1, terminated or truncated
                if stop():
                    return {}, []
            returns.append(total)
            lengths.append(length)
    finally:
        env.close()
    row = {
        "return_mean": float(np.mean(returns)),
        "return_std": float(np.std(returns)),
        "returns": returns,
        "length_mean": float(np.mean(lengths)),
        **({} if views is None else views.factors(agent)),
    }
    return row, frames
