"""All environments pass Gymnasium's checker and have the documented shapes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from pamd.envs import make_env
from pamd.envs.wrappers import Episodes

TASKS = ["cheetah_run", "ball_in_cup_catch", "point_mass_hard", "toy", "toy:goal", "gym:InvertedPendulum-v5"]


@pytest.fixture(params=TASKS)
def env(request: pytest.FixtureRequest) -> Iterator[Episodes]:
    env = make_env(request.param, size=32, frame_stack=2, render="fast", render_size=48)
    yield env
    env.close()
    env.close()


def test_gymnasium_accepts_it(env: Episodes) -> None:
    assert isinstance(env, gymnasium.Env)
    with warnings.catch_warnings():
        # Both are about what the checker cannot see, not about the environment.
        warnings.filterwarnings("ignore", ".*is different from the unwrapped version.*")
        warnings.filterwarnings("ignore", ".*not having a spec.*")
        check_env(env)


def test_shapes_and_types(env: Episodes) -> None:
    assert env.observation_space == gymnasium.spaces.Box(0, 255, (6, 32, 32), np.uint8)
    assert env.action_space.dtype == np.float32
    assert (env.action_space.low == -1).all()
    assert (env.action_space.high == 1).all()
    first, info = env.reset()
    assert info["frame"].shape == (3, 32, 32)
    assert info["frames"] == 0
    np.testing.assert_array_equal(first, np.concatenate([info["frame"]] * 2))
    second, reward, terminated, truncated, info = env.step(env.action_space.sample())
    assert (second.dtype, second.shape) == (np.uint8, (6, 32, 32))
    assert second.flags.c_contiguous
    assert type(reward) is float
    assert (terminated, truncated) == (False, False)
    assert info["frames"] == env.unwrapped.action_repeat
    # Oldest first.
    np.testing.assert_array_equal(second[:3], first[3:])
    np.testing.assert_array_equal(second[3:], info["frame"])
    picture = env.render()
    assert (picture.dtype, picture.shape) == (np.uint8, (48, 48, 3))


def test_what_is_given_out_is_not_kept(env: Episodes) -> None:
    first, info = env.reset()
    kept = first.copy()
    first[:] = 0
    info["frame"][:] = 0
    second = env.step(env.action_space.sample())[0]
    np.testing.assert_array_equal(second[:3], kept[3:])
