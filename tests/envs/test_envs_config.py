"""Names, options and defaults of environments, and errors for invalid ones."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import Any

import pytest

from pamd import schema as configs
from pamd.envs import EnvConfig, default_action_repeat, make_env, resolve_env
from pamd.envs.dmc import ACTION_REPEATS, suite_tasks, task_names
from pamd.envs.task import make_task
from pamd.errors import ConfigError, UnknownNameError


def test_config_survives_json() -> None:
    config = EnvConfig("cheetah_run", size=48, render="fast", time_limit=100)
    assert configs.from_json(EnvConfig, configs.to_json(config), "environment") == config


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": ""}, "task must be a name"),
        ({"task": 3}, "task must be text, got 3"),
        ({"size": 11}, "size must be a whole number of at least 12, got 11"),
        ({"size": "84"}, "size must be a whole number of at least 12, got '84'"),
        ({"size": True}, "size must be a whole number"),
        ({"frame_stack": 0}, "frame_stack must be a whole number of at least 1, got 0"),
        ({"action_repeat": 0}, "action_repeat must be"),
        ({"action_repeat": 2.0}, "action_repeat must be"),
        ({"camera": -2}, "camera must be a whole number of at least -1, got -2"),
        ({"time_limit": 0}, "time_limit must be"),
        ({"antialias": 0}, "antialias must be a whole number of at least 1, got 0"),
        ({"render": "quick"}, "unknown render of environment 'quick'"),
        ({"render": "fats"}, "Did you mean 'fast'"),
    ],
)
def test_bad_options(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        EnvConfig(**{"task": "toy", **options})


@pytest.mark.parametrize(
    ("task", "meant"),
    [
        ("cheeta_run", "cheetah_run"),
        ("pointmass_easy", "point_mass_easy"),
        ("tooy", "toy"),
        ("gymm:HalfCheetah-v5", "gym"),
        ("toy:gaol", "goal"),
        ("dmc:walker_wolk", "walker_walk"),
        ("gym:HalfCheeta-v5", "HalfCheetah-v5"),
    ],
)
def test_an_unknown_name_gets_the_nearest(task: str, meant: str) -> None:
    for ask in (make_env, lambda name: resolve_env(EnvConfig(name)), lambda name: make_task(EnvConfig(name))):
        with pytest.raises(UnknownNameError, match=f"Did you mean '{meant}'"):
            ask(task)


def test_every_name_of_the_suite_resolves_to_its_own_task() -> None:
    from dm_control import suite

    tasks = suite_tasks()
    assert sorted(tasks.values()) == sorted(suite.ALL_TASKS)
    assert tasks["ball_in_cup_catch"] == ("ball_in_cup", "catch")
    assert tasks["cartpole_swingup_sparse"] == ("cartpole", "swingup_sparse")
    assert tasks["humanoid_CMU_run"] == ("humanoid_CMU", "run")
    assert task_names() == set(tasks), "the names read from the source are those of the imported suite"


@pytest.mark.parametrize(
    ("task", "repeat"),
    [
        ("cartpole_swingup", 4),
        ("cheetah_run", 4),
        ("finger_spin", 2),
        ("hopper_hop", 4),
        ("acrobot_swingup", 4),
        ("point_mass_easy", 2),
        ("walker_walk", 2),
        ("walker_run", 2),
        ("reacher_easy", 2),
        ("dmc:cheetah_run", 4),
        ("toy", 1),
        ("gym:HalfCheetah-v5", 1),
    ],
)
def test_action_repeat_is_the_papers(task: str, repeat: int) -> None:
    assert default_action_repeat(task) == repeat
    config = EnvConfig(task, size=48)
    assert resolve_env(config) == dataclasses.replace(config, action_repeat=repeat)


def test_a_given_action_repeat_is_kept() -> None:
    config = EnvConfig("cheetah_run", action_repeat=3)
    assert resolve_env(config) == config


def test_an_environment_uses_the_resolved_action_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ACTION_REPEATS, "cheetah_run", 3)
    env = make_env("cheetah_run", size=12)
    assert env.unwrapped.action_repeat == 3
    env.close()


def test_a_name_is_not_checked_without_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pamd.envs.dmc.task_names", frozenset)
    assert resolve_env(EnvConfig("cheeta_run")).action_repeat == 2


def test_resolving_builds_no_simulator() -> None:
    code = (
        "import sys, json; from pamd.envs import EnvConfig, resolve_env;"
        "resolve_env(EnvConfig('cheetah_run')); json.dump(sorted(sys.modules), sys.stdout)"
    )
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
    assert not {"torch", "mujoco", "dm_control", "OpenGL"} & set(loaded)


def test_importing_the_layer_stays_light() -> None:
    code = "import sys, json, pamd.envs; json.dump(sorted(sys.modules), sys.stdout)"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
    assert not {"torch", "mujoco", "dm_control", "gymnasium", "OpenGL"} & set(loaded)


def test_antialiasing_requires_pictures() -> None:
    with pytest.raises(ConfigError, match="antialias requires images, got 2 for states"):
        resolve_env(EnvConfig("state:cheetah_run", antialias=2))
