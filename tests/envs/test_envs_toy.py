"""The toy task is fast, fully observed in one frame, and learnable."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pamd.envs import make_env
from pamd.envs.toy import SHARPNESS, SPEED, Toy
from pamd.envs.wrappers import Episodes
from pamd.errors import ConfigError


def mean_return(env: Episodes, policy: str, episodes: int = 100) -> float:
    random = np.random.default_rng(0)
    total = 0.0
    for _ in range(episodes):
        _, info = env.reset()
        over = False
        while not over:
            if policy == "random":
                action = random.uniform(-1, 1, size=2)
            elif policy == "straight":
                action = (env.unwrapped.task.target - env.unwrapped.task.position) / SPEED
            else:
                action = offset_seen(info["frame"]) / SPEED
            _, reward, terminated, over, info = env.step(np.clip(action, -1, 1))
            assert 0.0 < reward <= 1.0
            assert not terminated
            total += reward
    return total / episodes


def offset_seen(frame: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The way from the agent to the middle of the plane, from pixels [3, H, W] alone: the center of what is red."""
    red = np.clip(frame[0].astype(float) - 80, 0, None)
    size = red.shape[0]
    at = np.arange(size) - (size - 1) / 2
    column, row = (red.sum(0) * at).sum() / red.sum(), (red.sum(1) * at).sum() / red.sum()
    return np.array([-column, row]) / (size * 0.36)


@pytest.mark.parametrize(("task", "random", "straight"), [("toy", 5.8, 36.4), ("toy:goal", 4.3, 33.9)])
def test_returns_are_those_of_the_docstring(task: str, random: float, straight: float) -> None:
    env = make_env(task, size=12, frame_stack=1)
    assert mean_return(env, "random") == pytest.approx(random, abs=1.5)
    assert mean_return(env, "straight") == pytest.approx(straight, abs=1.0)


@pytest.mark.parametrize("size", [24, 84])
def test_one_frame_is_enough_to_act_well(size: int) -> None:
    assert mean_return(make_env("toy", size=size, frame_stack=1), "pixels", episodes=20) > 33


def test_reward_depends_on_the_state_alone() -> None:
    env = make_env("toy:goal", size=12)
    env.reset()
    task: Toy = env.unwrapped.task
    for action in env.action_space.sample(), np.zeros(2), np.ones(2):
        reward = env.step(action)[1]
        assert reward == pytest.approx(np.exp(-SHARPNESS * np.linalg.norm(task.position - task.target)))


def test_episodes_end_by_the_clock_after_40_frames() -> None:
    env = make_env("toy", size=12)
    env.reset()
    ends = [env.step(np.zeros(2))[2:4] for _ in range(40)]
    assert ends == [(False, False)] * 39 + [(False, True)]


@pytest.mark.parametrize("size", [12, 13, 24, 48, 84, 100])
def test_agent_and_target_are_wholly_in_every_picture(size: int) -> None:
    env = make_env("toy:goal", size=size)
    env.reset()
    task: Toy = env.unwrapped.task
    seen = []
    for position, target in [((-1, -1), (0, 0)), ((1, 1), (0, 0)), ((0, 0), (1, 1))]:
        task.position, task.target = np.array(position, float), np.array(target, float)
        seen.append(int(np.clip(task.draw(size)[:, :, 0].astype(int) - 90, 0, None).sum()))
    assert min(seen) > 0
    # A disc cut off in a corner would show half of itself or less; the rest is how it falls on the pixels.
    assert max(seen) - min(seen) < 0.25 * max(seen)


def test_background_is_bluer_than_anything_else() -> None:
    red, green, blue = make_env("toy", size=84).reset()[0][:3].astype(int)
    background = (blue > green) & (blue > red)
    assert 0.85 < background.mean() < 0.95


def test_it_has_one_camera() -> None:
    with pytest.raises(ConfigError, match="camera must be 0"):
        make_env("toy", camera=1)


@pytest.mark.parametrize("distractor", [None, "noise"])
def test_an_antialiased_frame_is_the_mean_of_a_larger_one(distractor: str | None) -> None:
    """Also with a background, which is drawn at the size of the observation and enlarged."""
    env = make_env("toy:goal", size=24, antialias=3, distractor=distractor)
    _, info = env.reset(seed=1)
    large = env.unwrapped.task.draw(72).astype(float)
    mean = large.reshape(24, 3, 24, 3, 3).mean(axis=(1, 3)).transpose(2, 0, 1)
    assert info["frame"].shape == env.unwrapped.observation_space.shape == (3, 24, 24)
    np.testing.assert_allclose(info["frame"], mean, atol=0.5)
