"""Our environments inside Gymnasium and Stable-Baselines3."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

import pamd
import pamd.integrations.gymnasium
from pamd.cli.main import main
from pamd.errors import ConfigError, TaskError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("task", ["toy", pytest.param("cheetah_run", marks=pytest.mark.slow)])
def test_both_checkers_accept_a_registered_task(task: str) -> None:
    env = gymnasium.make(f"pamd/{task}-v0", size=36, frame_stack=2)
    assert env.observation_space.shape == (6, 36, 36)
    assert env.spec is not None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is different from the unwrapped version.*")
        check_gymnasium(env)
        check_env(env)
        check_env(pamd.make_env(task, size=36))
    env.close()


def test_it_is_the_environment_that_make_env_gives() -> None:
    registered, own = gymnasium.make("pamd/toy_goal-v0", size=24, seed=3), pamd.make_env("toy:goal", size=24, seed=3)
    np.testing.assert_array_equal(registered.reset()[0], own.reset()[0])
    action = np.array([1.0, -0.5], np.float32)
    np.testing.assert_array_equal(registered.step(action)[0], own.step(action)[0])
    with pytest.raises(ConfigError, match="render_mode must be 'rgb_array', got 'human'"):
        pamd.integrations.gymnasium.make_registered("toy", render_mode="human")


def check_vectors(env: Any) -> None:
    stacked = VecFrameStack(env, 3)
    stacked.seed(0)
    first = stacked.reset()
    assert first.shape == (2, 9, 36, 36)
    assert (first[:, :6] == 0).all()
    obs, rewards, dones, infos = stacked.step(np.zeros((2, 2), np.float32))
    np.testing.assert_array_equal(obs[:, 3:6], first[:, 6:])
    for _ in range(39):
        obs, rewards, dones, infos = stacked.step(np.zeros((2, 2), np.float32))
    assert dones.all()
    assert rewards.shape == (2,)
    assert all(info["TimeLimit.truncated"] for info in infos)
    assert infos[0]["terminal_observation"].shape == (9, 36, 36)
    stacked.close()


def make_toy() -> Any:
    return pamd.make_env("toy", size=36, frame_stack=1)


def test_it_serves_in_a_vector_of_environments() -> None:
    check_vectors(DummyVecEnv([make_toy, make_toy]))


@pytest.mark.slow
def test_it_serves_in_processes_of_their_own() -> None:
    check_vectors(SubprocVecEnv([make_toy, make_toy]))


@pytest.mark.parametrize("task", ["gym:ALE/Pong-v5", "gym:MinAtar/Breakout-v1", "gym:CartPole-v1"])
def test_discrete_actions_are_sent_to_dqn(task: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", task, "--scale", "smoke", "--runs", str(tmp_path / "runs")]) == 2
    assert "discrete actions: use pamd.integrations.sb3 with DQN" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.json"))
    with pytest.raises(TaskError, match="discrete actions: use pamd"):
        pamd.make_env(task)


@pytest.mark.slow
def test_the_pages_ten_lines_run(tmp_path: Any) -> None:
    page = (ROOT / "docs" / "integrations" / "sb3.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "metric/" in done.stdout  # the logged values of the method
