"""Gymnasium's own environments through their pictures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from pamd.cli.main import main
from pamd.configuration import configure
from pamd.envs import build_env, make_env
from pamd.envs.gym import resize
from pamd.envs.wrappers import reported_success
from pamd.errors import ConfigError, DtypeError, ShapeError, TaskError, TaskFailedError, UnknownNameError
from pamd.training import train


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
    gymnasium.register("Strange-v0", Strange)


class Strange(Wide):
    """Never ends, and does at its fifth step what its options say."""

    def __init__(self, render_mode: str | None = None, fifth: str = "", picture: str = "") -> None:
        super().__init__(render_mode)
        self.fifth, self.picture = fifth, picture

    def step(self, action: Any) -> Any:
        self.age += 1
        if self.age == 5 and self.fifth == "exit":
            sys.exit(0)
        if self.age == 5 and self.fifth == "raise":
            raise ZeroDivisionError("by zero")
        if self.age == 5 and self.fifth == "short":
            return np.zeros(1, np.float32), 0.0, False, {}
        rewards = {"nan": np.nan, "huge": 1e300}
        return np.zeros(1, np.float32), rewards.get(self.fifth, 1.0) if self.age == 5 else 1.0, False, False, {}

    def render(self) -> Any:
        pictures = {
            "floats": np.full((20, 30, 3), 0.5),
            "nan": np.full((20, 30, 3), np.nan),
            "empty": np.zeros((0, 0, 3)),
        }
        return pictures.get(self.picture, super().render())


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
    with pytest.raises(ShapeError, match=r"must return an array \[H, W, 3\], .*, got \[20, 30\]"):
        make_env("gym:Flat-v0").reset()
    with pytest.raises(ConfigError, match="camera must be 0"):
        make_env("gym:Wide-v0", camera=1)
    gymnasium.register("Broken-v0", "a_package_that_is_not_here:Env")
    with pytest.raises(TaskError, match=r"'gym:Broken-v0' cannot be built: ModuleNotFoundError"):
        make_env("gym:Broken-v0")


@pytest.mark.parametrize(
    ("picture", "error", "says"),
    [
        ("floats", DtypeError, "must return uint8 from 0 to 255, got float64"),
        ("nan", DtypeError, "must return uint8"),
        ("empty", ShapeError, r"must return an array .* at least 1 x 1, got \[0, 0, 3\]"),
    ],
)
def test_images_that_would_become_blank_are_refused(picture: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=f"'gym:Strange-v0': render.. {says}"):
        make_env("gym:Strange-v0", options={"picture": picture})


def test_an_own_environment_is_named_with_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownNameError, match=r"gym:MODULE:Dot-v0, where importing MODULE registers it"):
        make_env("gym:Dot-v0")
    with pytest.raises(TaskError, match=r"No module named 'my_dot'.* add its folder to PYTHONPATH"):
        make_env("gym:my_dot:Dot-v0")
    with pytest.raises(TaskError, match=r"A module is named without .py: gym:my_dot:Dot-v0"):
        make_env("gym:my_dot.py:Dot-v0")
    with pytest.raises(UnknownNameError, match=r"Did you mean 'gym:Pendulum-v1'"):
        make_env("Pendulum-v1")
    with pytest.raises(UnknownNameError, match=r"Did you mean 'gym:my_dot:Dot-v0'"):
        make_env("my_dot:Dot-v0")
    source = "import gymnasium\nfrom tests.envs.test_envs_gym import Wide\ngymnasium.register('Dot-v0', Wide)\n"
    (tmp_path / "my_dot.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert make_env("gym:my_dot:Dot-v0", size=12).reset()[0].shape == (9, 12, 12)
    with pytest.raises(UnknownNameError, match=r"unknown Gymnasium environment 'Dto-v0'. Did you mean 'Dot-v0'"):
        make_env("gym:my_dot:Dto-v0")


def test_options_of_the_environment_are_settings() -> None:
    config = configure("gym:Flat-v0", "sac", scale="smoke", settings=["env.options.flat=false"])
    assert config.env.options == {"flat": False}
    assert build_env(config.env).reset()[0].shape == (9, 24, 24)
    with pytest.raises(ConfigError, match=r"must not have max_episode_steps, which env.time_limit sets"):
        make_env("gym:Flat-v0", options={"max_episode_steps": 3})
    with pytest.raises(TaskError, match=r"cannot be built: TypeError: .*'falt'"):
        make_env("gym:Flat-v0", options={"falt": True})
    gymnasium.register("Vector-v0", lambda: None)
    with pytest.raises(TaskError, match=r"must take render_mode='rgb_array'. To learn from vectors, use"):
        make_env("gym:Vector-v0")
    with pytest.raises(ConfigError, match="options are for gym: tasks only, got flat"):
        make_env("toy", options={"flat": True})


def test_an_environment_without_a_limit_ends() -> None:
    env = make_env("gym:Strange-v0", size=12, action_repeat=600)
    env.reset()
    assert env.step(np.zeros(4))[2:4] == (False, False)
    assert env.step(np.zeros(4))[2:4] == (False, True)
    assert "states no time limit, so an episode is truncated after 1000" in env.unwrapped.notice  # type: ignore[attr-defined]
    for task, limit in (("gym:Strange-v0", 7), ("gym:Wide-v0", None), ("toy", None)):
        assert make_env(task, size=12, time_limit=limit).unwrapped.notice == ""  # type: ignore[attr-defined]


@pytest.mark.parametrize(("task", "frames"), [("gym:Wide-v0", 2), ("gym:Strange-v0", 40), ("toy", 40)])
def test_the_smallest_scale_keeps_a_shorter_limit(task: str, frames: int) -> None:
    env = build_env(configure(task, "sac", scale="smoke", action_repeat=100).env)
    env.reset()
    assert env.step(np.zeros(env.action_space.shape or ()))[4]["frames"] == frames
    assert configure(task, "sac", scale="smoke", time_limit=50).env.limit(40) == 50


@pytest.mark.parametrize(
    ("fifth", "says"),
    [
        ("exit", r"failed in its step at step 5 of episode 0: SystemExit: 0 \(.*test_envs_gym.py, line \d+\)"),
        ("raise", "at step 5 of episode 0: ZeroDivisionError: by zero"),
        ("short", "at step 5 of episode 0: ValueError: not enough values to unpack"),
        ("nan", "the return of an episode must be a finite number of at most 1e.30, got nan at step 5 of episode 0"),
        ("huge", r"must be a finite number of at most 1e.30, got 1e.300 at step 5 of episode 0"),
    ],
)
def test_what_an_environment_does_wrong_is_its_error(
    fifth: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = make_env("gym:Strange-v0", size=12, action_repeat=4, options={"fifth": fifth})
    env.reset()
    env.step(np.zeros(4))
    with pytest.raises(TaskFailedError, match=f"'gym:Strange-v0'.* {says}"):
        env.step(np.zeros(4))
    words = ["train", "gym:Strange-v0", "--method", "sac", "--scale", "smoke", "--device", "cpu", "--video", "off"]
    code = main([*words, "--runs", str(tmp_path), "--set", f"env.options.fifth={fifth}"])
    assert code == 1
    message = capsys.readouterr().err
    assert "bug in pamd" not in message
    assert "'gym:Strange-v0'" in message
    (run,) = tmp_path.iterdir()
    status = json.loads((run / "status.json").read_text())
    assert status["state"] == "failed"
    assert "step 5 of episode 0" in status["error"]
    assert (run / "eval.jsonl").read_text() == ""


class Winning(Wide):
    """Reports success under the name `key` in its first frame only."""

    def __init__(self, render_mode: str | None = None, key: str = "success") -> None:
        super().__init__(render_mode)
        self._key = key

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, {self._key: float(self.age == 1)}


@pytest.mark.parametrize("key", ["success", "is_success"])
def test_success_in_any_frame_is_the_success_of_the_decision(key: str) -> None:
    gymnasium.register("Winning-v0", Winning)
    env = make_env("gym:Winning-v0", size=12, action_repeat=2, options={"key": key})
    env.reset()
    assert env.step(np.zeros(4, np.float32))[4]["success"] is True  # The second frame says 0.
    assert env.step(np.zeros(4, np.float32))[4]["success"] is False
    env.close()


def test_what_is_no_number_is_no_success() -> None:
    assert reported_success({}) is None
    assert reported_success({"success": None, "is_success": "yes"}) is None
    assert reported_success({"success": float("nan")}) is False
    assert reported_success({"success": 0, "is_success": np.float32(1)}) is True


def test_evaluations_have_the_success_of_each_episode(tmp_path: Path) -> None:
    gymnasium.register("Winning-v0", Winning)
    for task, successes in (("gym:Winning-v0", [True, True]), ("gym:Wide-v0", None)):
        small = ("learner.random_decisions=20", "learner.batch=4")
        options = {"decisions": 21, "evaluate_every": 21, "evaluate_episodes": 2}
        config = configure(task, scale="smoke", settings=small, **options)
        rows = [json.loads(line) for line in (train(config, tmp_path) / "eval.jsonl").read_text().splitlines()]
        assert [row.get("successes") for row in rows] == [successes] * len(rows)
        assert {row.get("success_mean") for row in rows} == {None if successes is None else 1.0}
