"""Gymnasium's own environments through their pictures."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from pamd.envs import make_env
from pamd.envs.gym import resize
from pamd.errors import ConfigError, ShapeError, TaskError


class Wide(gymnasium.Env[Any, Any]):
    """Actions [2, 2] in [0, 4]; a picture of 20 x 30 whose left half is bright; over after three steps."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}
    observation_space = gymnasium.spaces.Box(0, 1, (1,))
    action_space = gymnasium.spaces.Box(0, 4, (2, 2))

    def __init__(self, render_mode: str | None = None, flat: bool = False) -> None:
        self.render_mode = render_mode
        self._flat = flat

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.age = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.age += 1
        return np.zeros(1, np.float32), float(action.sum()), self.age == 3, False, {"age": self.age}

    def render(self) -> Any:
        picture = np.zeros((20, 30, 3), np.uint8)
        picture[:, :15] = 200
        return picture[:, :, 0] if self._flat else picture


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gymnasium.registry", dict(gymnasium.registry))
    monkeypatch.setattr("gymnasium.envs.registration.registry", gymnasium.registry)
    gymnasium.register("Wide-v0", Wide, max_episode_steps=2)
    gymnasium.register("Flat-v0", Wide, kwargs={"flat": True})


def test_an_environment_of_another_shape() -> None:
    env = make_env("gym:Wide-v0", size=12, frame_stack=1)
    assert env.action_space.shape == (4,)
    frame = env.reset()[0]
    assert (frame[:, :, :6] == 200).all()
    assert (frame[:, :, 6:] == 0).all()
    _, reward, terminated, truncated, info = env.step(np.array([-1, 0, 1, 1]))
    assert (reward, terminated, truncated, info["age"]) == (10.0, False, False, 1)
    assert env.step(np.zeros(4))[2:4] == (False, True)
    assert env.metadata["render_fps"] == 12


def test_its_termination_cuts_the_repeats() -> None:
    env = make_env("gym:Wide-v0", size=12, action_repeat=2, time_limit=9)
    env.reset()
    env.step(np.ones(4))
    _, reward, terminated, truncated, info = env.step(np.ones(4))
    assert (reward, terminated, truncated, info["frames"]) == (16.0, True, False, 1)


def test_mujoco_is_drawn_and_moves() -> None:
    env = make_env("gym:HalfCheetah-v5", size=24, action_repeat=4)
    first = env.reset()[1]["frame"]
    last = env.step(np.ones(6))[4]["frame"]
    assert first.std() > 10
    assert (first != last).any()
    env.close()


@pytest.mark.parametrize("shape", [(20, 30), (12, 12), (7, 5), (480, 480)])
def test_resize_averages_areas(shape: tuple[int, int]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    resized = resize(picture, 12)
    assert (resized.shape, resized.dtype) == ((12, 12, 3), np.uint8)
    assert resized is not picture
    assert abs(resized.mean() - picture.mean()) < 1
    if shape == (480, 480):
        blocks = picture.reshape(12, 40, 12, 40, 3).mean((1, 3))
        assert np.abs(resized - blocks).max() <= 0.5 + 1e-3


def test_discrete_actions_are_refused() -> None:
    gymnasium.register("Discrete-v0", lambda render_mode: Discrete())
    with pytest.raises(TaskError, match=r"'gym:Discrete-v0': actions must be continuous .* got Discrete\(2\)"):
        make_env("gym:Discrete-v0")


class Discrete(Wide):
    action_space = gymnasium.spaces.Discrete(2)  # type: ignore[assignment]


def test_what_cannot_be_used_says_why() -> None:
    with pytest.raises(ShapeError, match=r"must return an array \[H, W, 3\], got \[20, 30\]"):
        make_env("gym:Flat-v0").reset()
    with pytest.raises(ConfigError, match="camera must be 0"):
        make_env("gym:Wide-v0", camera=1)
    gymnasium.register("Broken-v0", "a_package_that_is_not_here:Env")
    with pytest.raises(TaskError, match=r"'gym:Broken-v0' cannot be built: ModuleNotFoundError"):
        make_env("gym:Broken-v0")
