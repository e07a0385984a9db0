"""Names, options and defaults: what is valid, and what is said of what is not."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from pamd import config as configs
from pamd.envs import EnvConfig, default_action_repeat, make_env
from pamd.envs.dmc import ACTION_REPEATS, suite_tasks
from pamd.errors import ConfigError, UnknownNameError


def test_config_survives_json() -> None:
    config = EnvConfig("cheetah_run", size=48, render="fast", family="independent", time_limit=100)
    assert configs.from_json(EnvConfig, configs.to_json(config), "environment") == config


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": ""}, "task must be a name"),
        ({"task": 3}, "task must be a name"),
        ({"size": 11}, "size must be a whole number of at least 12, got 11"),
        ({"size": "84"}, "size must be a whole number of at least 12, got '84'"),
        ({"size": True}, "size must be a whole number"),
        ({"frame_stack": 0}, "frame_stack must be a whole number of at least 1, got 0"),
        ({"action_repeat": 0}, "action_repeat must be"),
        ({"action_repeat": 2.0}, "action_repeat must be"),
        ({"camera": -2}, "camera must be a whole number of at least -1, got -2"),
        ({"time_limit": 0}, "time_limit must be"),
        ({"render": "quick"}, "unknown render of environment 'toy' 'quick'"),
        ({"render": "fats"}, "Did you mean 'fast'"),
        ({"family": "independant"}, "Did you mean 'independent'"),
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
    with pytest.raises(UnknownNameError, match=f"Did you mean '{meant}'"):
        make_env(task)


def test_every_name_of_the_suite_resolves_to_its_own_task() -> None:
    from dm_control import suite

    tasks = suite_tasks()
    assert sorted(tasks.values()) == sorted(suite.ALL_TASKS)
    assert tasks["ball_in_cup_catch"] == ("ball_in_cup", "catch")
    assert tasks["cartpole_swingup_sparse"] == ("cartpole", "swingup_sparse")
    assert tasks["humanoid_CMU_run"] == ("humanoid_CMU", "run")


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
@pytest.mark.parametrize("family", [None, "bisimulation", "independent"])
def test_action_repeat_is_the_papers(task: str, repeat: int, family: str | None) -> None:
    assert default_action_repeat(task, family) == repeat


def test_a_family_reads_its_own_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ACTION_REPEATS, "cheetah_run", {"bisimulation": 3, "independent": 5})
    assert default_action_repeat("cheetah_run", "bisimulation") == 3
    assert default_action_repeat("cheetah_run", "independent") == 5


def test_importing_the_layer_stays_light() -> None:
    code = "import sys, json, pamd.envs; json.dump(sorted(sys.modules), sys.stdout)"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
    assert not {"torch", "mujoco", "dm_control", "gymnasium", "OpenGL"} & set(loaded)
