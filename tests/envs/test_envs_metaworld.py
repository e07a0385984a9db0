"""Meta-World tasks. Most tests require pamd[metaworld] and are skipped without it."""

from __future__ import annotations

import importlib.util
import json
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

from pamd.envs import FAMILIES, EnvConfig, make_env, resolve_env
from pamd.envs import metaworld as family
from pamd.envs.backend import import_simulator
from pamd.envs.metaworld import MetaWorld, task_names
from pamd.envs.wrappers import Episodes
from pamd.errors import ConfigError, TaskError, UnknownNameError

needs_metaworld = pytest.mark.skipif(importlib.util.find_spec("metaworld") is None, reason="needs pamd[metaworld]")
SCRIPTED = (
    *("assembly-v3", "button-press-topdown-v3", "coffee-push-v3", "disassemble-v3", "door-open-v3", "drawer-close-v3"),
    *("hammer-v3", "pick-place-v3", "reach-v3", "soccer-v3", "stick-pull-v3", "sweep-into-v3"),
)
"""Tasks of the literature, and some of other kinds."""
ACTIONS = np.random.default_rng(0).uniform(-1, 1, (20, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def _other_peoples_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="metaworld|gymnasium")
        yield


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "task_names", lambda: ())
    for task in ("metaworld:reach-v3", "state:metaworld:reach-v3"):
        with pytest.raises(TaskError, match=r"metaworld is not installed: pip install .*\[metaworld\]"):
            resolve_env(EnvConfig(task))
    assert FAMILIES.get("metaworld").tasks() == ()


@needs_metaworld
def test_all_tasks_are_known_by_name_and_repeat_actions_twice() -> None:
    assert set(task_names()) == set(import_simulator("metaworld.env_dict").ALL_V3_ENVIRONMENTS)
    assert len(task_names()) == 50
    assert resolve_env(EnvConfig("metaworld:reach-v3")).action_repeat == 2
    assert resolve_env(EnvConfig("state:metaworld:reach-v3")).action_repeat == 2
    for task in ("metaworld:reach-v2", "state:metaworld:reach-v2"):
        with pytest.raises(UnknownNameError, match="reach-v3"):
            resolve_env(EnvConfig(task))


def _play(task: MetaWorld, seed: int) -> list[list[float]]:
    task.begin(seed)
    rows = [task.state().tolist()]
    for action in ACTIONS:
        outcome = task.advance(action)
        rows.append([*task.state().tolist(), outcome.reward])
    return rows


def _check_seeded(name: str) -> None:
    config = EnvConfig(f"metaworld:{name}")
    task, other = MetaWorld(name, config), MetaWorld(name, config)
    first, another, again = (_play(task, seed) for seed in (5, 9, 5))
    assert first == again == _play(other, 5), name
    assert first[0] != another[0], name
    task.close()
    other.close()


@needs_metaworld
def test_the_seed_alone_determines_an_episode() -> None:
    _check_seeded("reach-v3")


@pytest.mark.slow
@needs_metaworld
def test_the_seed_alone_determines_an_episode_of_every_task() -> None:
    for name in task_names():
        _check_seeded(name)


@needs_metaworld
def test_an_episode_has_500_frames_unless_the_config_sets_others() -> None:
    for limit, decisions in ((None, 250), (30, 15), (520, 260)):
        env = make_env("state:metaworld:reach-v3", time_limit=limit)
        obs, _ = env.reset()
        assert obs.shape == (39,)
        steps = 0
        while True:
            _, _, terminated, truncated, info = env.step(np.zeros(4, np.float32))
            steps += 1
            if terminated or truncated:
                break
        assert (steps, terminated, info["frames"]) == (decisions, False, 2)
        env.close()


@needs_metaworld
def test_states_contain_the_goal_and_are_equal_when_observed_twice() -> None:
    env = make_env("state:metaworld:reach-v3", seed=3)
    obs, _ = env.reset()
    inner = env.unwrapped.task._task._env  # type: ignore[attr-defined]
    np.testing.assert_array_equal(obs[-3:], inner._target_pos.astype(np.float32))
    env.step(ACTIONS[0])
    before = env.unwrapped.observe()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(before, env.unwrapped.observe())  # type: ignore[attr-defined]
    env.close()


@needs_metaworld
def test_a_running_episode_is_restored_bit_for_bit() -> None:
    env = make_env("metaworld:button-press-topdown-v3", seed=1, size=24, render="fast")
    env.reset()
    env.reset()
    for action in ACTIONS[:5]:
        env.step(action)
    other = make_env("metaworld:button-press-topdown-v3", seed=8, size=24, render="fast")
    other.restore(json.loads(json.dumps(env.state())))
    for action in ACTIONS[5:9]:
        one, two = env.step(action), other.step(action)
        np.testing.assert_array_equal(one[0], two[0])
        assert one[1] == two[1]
    env.close()
    other.close()


@needs_metaworld
def test_camera_0_is_corner2_at_the_place_of_the_literature() -> None:
    env = make_env("metaworld:reach-v3", size=24, render="fast")
    pictures = [env.reset()[0][-3:]]
    model = env.unwrapped.task._env.model  # type: ignore[attr-defined]
    np.testing.assert_array_equal(model.camera("corner2").pos, [0.75, 0.075, 0.7])
    env.close()
    # Since 3.1, the package has the same view as its last fixed camera.
    for name in ("corner4", "topview"):
        number = 1 + [n for n in _camera_names(model) if n != "corner2"].index(name)
        other = make_env("metaworld:reach-v3", size=24, render="fast", camera=number)
        pictures.append(other.reset()[0][-3:])
        other.close()
    np.testing.assert_array_equal(pictures[0], pictures[1])
    assert (pictures[0] != pictures[2]).mean() > 0.2
    with pytest.raises(ConfigError, match="camera must be between -1 and 6, got 7"):
        make_env("metaworld:reach-v3", camera=7)


def _camera_names(model: object) -> list[str]:
    return [model.camera(number).name for number in range(model.ncam)]  # type: ignore[attr-defined]


@needs_metaworld
def test_scripted_policies_succeed_in_at_least_11_of_12_tasks() -> None:
    policies = import_simulator("metaworld.policies").ENV_POLICY_MAP
    solved = [name for name in SCRIPTED if _succeeds(make_env(f"state:metaworld:{name}"), policies[name]())]
    assert len(solved) >= 11, solved


def _succeeds(env: Episodes, policy: object) -> bool:
    obs, _ = env.reset()
    over = success = False
    while not (over or success):
        action = policy.get_action(obs.astype(np.float64))  # type: ignore[attr-defined]
        obs, _, terminated, truncated, info = env.step(np.clip(action, -1, 1).astype(np.float32))
        over, success = terminated or truncated, info["success"] > 0
    env.close()
    return bool(success)
