"""Evaluation: the policy's mode, on an environment and seeds of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pamd.agent import Agent
from pamd.envs import EnvConfig, build_env
from pamd.training.config import TrainConfig

__all__ = ["EVALUATION", "evaluate", "load_agent"]

EVALUATION = 1_000_003
"""Added to a run's seed for its evaluation: the same episodes at every evaluation and for every method."""

VIDEO_SIZE = 240

Film = list[NDArray[np.uint8]]


def evaluate(
    agent: Agent,
    env_config: EnvConfig,
    seed: int,
    episodes: int,
    *,
    film: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, Any], Film]:
    """Returns of `episodes` episodes and, where `film`, the frames [H, W, 3] of the first.

    With a distractor that has clips, they are played twice: before the clips of training, and, under keys that begin
    with `unseen_`, before those that training never shows; the film has one after the other. `stop` is asked after
    every decision; where it says so, the row is empty.
    """
    row, frames = _play(agent, env_config, seed, episodes, film, stop)
    distractor = env_config.distractor
    if not row or distractor is None or not distractor.has_clips:
        return row, frames
    unseen = dataclasses.replace(env_config, distractor=dataclasses.replace(distractor, split="unseen"))
    other, more = _play(agent, unseen, seed, episodes, film, stop)
    if not other:
        return {}, []
    return {**row, "clips": distractor.split, **{f"unseen_{key}": value for key, value in other.items()}}, frames + more


def _play(
    agent: Agent, env_config: EnvConfig, seed: int, episodes: int, film: bool, stop: Callable[[], bool]
) -> tuple[dict[str, Any], Film]:
    env = build_env(env_config, seed=seed + EVALUATION, render_size=VIDEO_SIZE)
    returns: list[float] = []
    lengths: list[int] = []
    frames: Film = []
    try:
        for episode in range(episodes):
            obs, _ = env.reset()
            total, length, over = 0.0, 0, False
            while not over:
                if film and episode == 0:
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
    }
    return row, frames


def load_agent(config: TrainConfig, tensors: Mapping[str, Tensor]) -> tuple[Agent, int]:
    """The agent of a checkpoint, and the frame rate of its films."""
    env = build_env(config.env)
    try:
        channels = (env.observation_space.shape or (0,))[0] // config.env.frame_stack
        action_dim = (env.action_space.shape or (0,))[0]
        rate = int(env.metadata["render_fps"])
    finally:
        env.close()
    agent = Agent(config.method, config.scale, action_dim=action_dim, seed=config.seed, channels=channels)
    agent.load(tensors)
    return agent, rate
