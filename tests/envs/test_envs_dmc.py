"""The DMControl suite: its own pixels, its own rewards, its own ends."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from pamd.envs import make_env
from pamd.envs.dmc import DMControl, suite_tasks
from pamd.envs.task import scale_action
from pamd.envs.wrappers import Episodes, derive_seed
from pamd.errors import ConfigError, TaskError


@pytest.fixture
def cheetah() -> Iterator[Episodes]:
    env = make_env("cheetah_run", size=24, render="fast")
    yield env
    env.close()


@pytest.mark.parametrize(
    ("task", "camera"),
    [("cheetah_run", 0), ("cheetah_run", -1), ("walker_walk", 1), ("point_mass_hard", 0), ("quadruped_escape", 0)],
)
def test_standard_pixels_are_dm_controls(task: str, camera: int) -> None:
    env = make_env(task, camera=camera)
    simulator: DMControl = env.unwrapped.task
    # Two episodes: quadruped_escape has another terrain in each, which lives in the context.
    for _ in range(2):
        info = env.reset()[1]
        for _ in range(2):
            expected = simulator.physics.render(84, 84, camera_id=camera)
            np.testing.assert_array_equal(info["frame"].transpose(1, 2, 0), expected)
            info = env.step(env.action_space.sample())[4]
    env.close()


def test_fast_pixels_show_the_same_scene() -> None:
    standard, fast = (make_env("cheetah_run", render=render).reset()[1]["frame"] for render in ("standard", "fast"))
    assert (standard != fast).any()
    # The animal is the only thing that is redder than it is blue.
    animals = [frame[0].astype(int) > frame[2].astype(int) + 20 for frame in (standard, fast)]
    assert animals[0].sum() > 100
    assert (animals[0] & animals[1]).sum() > 0.8 * (animals[0] | animals[1]).sum()


def test_the_camera_follows_a_replaced_model(cheetah: Episodes) -> None:
    from dm_control.suite import walker

    physics = cheetah.unwrapped.task.physics
    before = cheetah.reset()[1]["frame"]
    physics.reload_from_xml_string(*walker.get_model_and_assets())
    after = cheetah.unwrapped.task.draw(24)
    physics.model.vis.quality.offsamples = 0
    assert (after.transpose(2, 0, 1) != before).any()
    expected = physics.render(24, 24, camera_id=0, render_flag_overrides={"shadow": False, "reflection": False})
    np.testing.assert_array_equal(after, expected)


def test_pictures_may_be_larger_than_the_models_buffer() -> None:
    env = make_env("point_mass_easy", size=12, render="fast", render_size=700)
    env.reset()
    assert env.render().shape == (700, 700, 3)
    env.close()


def test_rewards_are_the_sum_over_the_repeats(cheetah: Episodes) -> None:
    from dm_control import suite

    reference = suite.load("cheetah", "run", task_kwargs={"random": derive_seed(0, 0)})
    reference.reset()
    cheetah.reset()
    for _ in range(3):
        action = cheetah.action_space.sample()
        expected = sum(reference.step(action.astype(np.float64)).reward for _ in range(4))
        assert cheetah.step(action)[1] == expected
    np.testing.assert_array_equal(cheetah.unwrapped.task.physics.state(), reference.physics.state())


@pytest.mark.parametrize(
    "name",
    ["cartpole_swingup", "finger_turn_easy", "walker_run", "hopper_hop", "humanoid_stand", "manipulator_bring_ball"],
)
def test_states_and_rewards_are_those_that_dm_control_returns(name: str) -> None:
    from dm_control import suite

    reference = suite.load(*suite_tasks()[name], task_kwargs={"random": derive_seed(3, 0)})
    env, expected = make_env(f"state:{name}", seed=3, action_repeat=2), reference.reset()
    obs, _ = env.reset()
    for _ in range(5):
        np.testing.assert_array_equal(obs, np.concatenate([*map(np.ravel, expected.observation.values())], dtype="f4"))
        action = env.action_space.sample()
        first, expected = (reference.step(action.astype(np.float64)) for _ in range(2))
        obs, reward, *_ = env.step(action)
        assert reward == first.reward + expected.reward
    env.close()


def test_the_time_limit_is_a_truncation_and_cuts_the_last_repeat() -> None:
    env = make_env("point_mass_easy", size=12, render="fast", action_repeat=300)
    env.reset()
    steps = [env.step(np.zeros(2)) for _ in range(4)]
    assert [step[2:4] for step in steps] == [(False, False)] * 3 + [(False, True)]
    assert [step[4]["frames"] for step in steps] == [300, 300, 300, 100]
    with pytest.raises(TaskError, match="call reset"):
        env.step(np.zeros(2))
    env.close()


@pytest.mark.parametrize("limit", [7, 1500])
def test_a_time_limit_of_ones_own_may_be_shorter_or_longer(limit: int) -> None:
    env = make_env("point_mass_easy", size=12, render="fast", action_repeat=limit + 5, time_limit=limit)
    env.reset()
    *_, terminated, truncated, info = env.step(np.zeros(2))
    assert (terminated, truncated, info["frames"]) == (False, True, limit)
    env.close()


def test_lqr_ends_although_the_suite_never_ends_it() -> None:
    env = make_env("lqr_lqr_2_1", size=12, render="fast", action_repeat=2000)
    env.reset()
    *_, truncated, info = env.step(np.ones(1))
    assert (truncated, info["frames"]) == (True, 1000)
    env.close()


def test_a_discount_of_zero_is_a_termination(cheetah: Episodes, monkeypatch: pytest.MonkeyPatch) -> None:
    cheetah.reset()
    monkeypatch.setattr(cheetah.unwrapped.task._env.task, "get_termination", lambda physics: 0.0)
    *_, terminated, truncated, info = cheetah.step(np.zeros(6))
    assert (terminated, truncated, info["frames"]) == (True, False, 1)


def test_a_simulation_that_diverges_says_so(cheetah: Episodes) -> None:
    cheetah.reset()
    cheetah.unwrapped.task.physics.data.qpos[:] = np.nan
    with pytest.raises(TaskError, match="cheetah_run: the simulation diverged"):
        cheetah.step(np.zeros(6))
    with pytest.raises(TaskError, match="call reset"):
        cheetah.step(np.zeros(6))
    cheetah.reset()
    cheetah.step(np.zeros(6))


def test_actions_are_clipped(cheetah: Episodes) -> None:
    cheetah.reset()
    far = cheetah.step(np.full(6, 9.0))
    cheetah.reset(seed=0)
    near = cheetah.step(np.ones(6))
    np.testing.assert_array_equal(far[0], near[0])
    assert far[1] == near[1]


def test_actions_are_scaled_to_the_bounds() -> None:
    low, high = np.array([-1.0, -1.0, 0.0, -1e10, -np.inf]), np.array([1.0, 1.1, 4.0, 1e10, np.inf])
    for value, expected in [(-1, [-1, -1, 0, -1, -1]), (0, [0, 0.05, 2, 0, 0]), (1, [1, 1.1, 4, 1, 1])]:
        np.testing.assert_allclose(scale_action(np.full(5, value, np.float32), low, high), expected)


def test_a_camera_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="'cheetah_run': camera must be between -1 and 1, got 7"):
        make_env("cheetah_run", camera=7)


@pytest.mark.slow
def test_every_task_of_the_suite_runs_draws_and_resumes() -> None:
    """Each: dm_control's pixels in two episodes, then a second environment restored into the middle of the second."""
    wrong = []
    for name in suite_tasks():
        first, second = make_env(name, size=32), make_env(name, size=32)
        simulator: DMControl = first.unwrapped.task
        random = np.random.default_rng(0)
        for _ in range(2):
            frame = first.reset()[1]["frame"]
            for _ in range(3):
                if not np.array_equal(frame.transpose(1, 2, 0), simulator.physics.render(32, 32, camera_id=0)):
                    wrong.append(f"{name}: not dm_control's pixels")
                observation, *_, info = first.step(random.uniform(-1, 1, first.action_space.shape))
                frame = info["frame"]
        if not np.array_equal(second.restore(first.state()), observation):
            wrong.append(f"{name}: another observation after restore")
        action = random.uniform(-1, 1, first.action_space.shape)
        if first.step(action)[1] != second.step(action)[1]:
            wrong.append(f"{name}: another reward after restore")
        first.close()
        second.close()
    assert not wrong
