"""Evaluation: the policy's mode, on an environment and with seeds of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.agent import Agent
from pamd.envs import EnvConfig, build_env

__all__ = ["EVALUATION", "evaluate"]

EVALUATION = 1_000_003
"""Added to a run's seed for its evaluation: the same episodes at every evaluation and for every method."""

VIDEO_SIZE = 240

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
    """Returns of `episodes` episodes and, if `record`, the frames [H, W, 3] of the first.

    With a video distractor, episodes are played twice: with the background videos of training, and, under keys that
    begin with `unseen_`, with videos that training never shows. The recording has one after the other. `stop` is asked
    after every decision; if it returns True, the row is empty.
    """
    row, frames = _play(agent, env_config, seed, episodes, record, stop)
    distractor = env_config.distractor
    if not row or distractor is None or not distractor.has_clips:
        return row, frames
    unseen = dataclasses.replace(env_config, distractor=dataclasses.replace(distractor, split="unseen"))
    other, more = _play(agent, unseen, seed, episodes, record, stop)
    if not other:
        return {}, []
    return {**row, "clips": distractor.split, **{f"unseen_{key}": value for key, value in other.items()}}, frames + more


def _play(
    agent: Agent, env_config: EnvConfig, seed: int, episodes: int, record: bool, stop: Callable[[], bool]
) -> tuple[dict[str, Any], Video]:
    env = build_env(env_config, seed=seed + EVALUATION, render_size=VIDEO_SIZE)
    returns: list[float] = []
    lengths: list[int] = []
    frames: Video = []
    try:
        for episode in range(episodes):
            obs, _ = env.reset()
            total, length, over = 0.0, 0, False
            while not over:
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
    }
    return row, frames
