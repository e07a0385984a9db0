"""DMControl tasks observed as states, with noise coordinates and with a random projection."""

from __future__ import annotations

import dataclasses

import gymnasium
import numpy as np
import pytest

from pamd.configuration import configure
from pamd.envs import EnvConfig, build_env, make_env, resolve_env, unseen
from pamd.envs.config import NoiseConfig, noise
from pamd.envs.state import StateNoise
from pamd.errors import ConfigError, ShapeError, UnknownNameError
from pamd.learners import AugmentationPart

TASK = "state:cartpole_swingup"
CARTPOLE = 5
"""Position, cosine and sine of the angle, two velocities."""


def test_the_state_is_the_suites_own_observation() -> None:
    env = make_env(TASK, seed=3)
    obs, info = env.reset()
    physics = env.unwrapped.task._task.physics  # type: ignore[attr-defined]
    expected = np.concatenate([physics.bounded_position(), physics.velocity()]).astype(np.float32)
    assert isinstance(env.observation_space, gymnasium.spaces.Box)
    assert obs.shape == (CARTPOLE,)
    assert obs.dtype == np.float32
    np.testing.assert_array_equal(obs, expected)
    np.testing.assert_array_equal(info["frame"], obs)
    env.close()


def test_noise_has_its_mean_and_deviation_and_leaves_the_state_alone() -> None:
    config = noise("gaussian", coordinates=400, deviation=3.0, mean=2.0)
    clean, noisy = make_env(TASK, seed=1), make_env(TASK, seed=1, noise=config)
    for env in (clean, noisy):
        env.reset()
    drawn = []
    for _ in range(50):
        state = clean.step(np.zeros(1, np.float32))[0]
        obs = noisy.step(np.zeros(1, np.float32))[0]
        np.testing.assert_array_equal(obs[:CARTPOLE], state)
        drawn.append(obs[CARTPOLE:])
    values = np.concatenate(drawn)
    # 20,000 draws: the standard error of the mean is 0.02.
    assert abs(values.mean() - 2.0) < 0.1
    assert abs(values.std() - 3.0) < 0.1
    assert len(np.unique(values)) > 19_000
    clean.close()
    noisy.close()


def test_a_projection_mixes_state_and_noise_by_one_fixed_matrix() -> None:
    config = noise("projected", coordinates=3)
    plain = StateNoise(dataclasses.replace(config, projection=None), CARTPOLE)
    mixed = StateNoise(config, CARTPOLE)
    state = np.arange(5.0)
    both = plain(state, np.random.default_rng(7))
    expected = np.random.default_rng([0, 8]).standard_normal((8, 8)) / np.sqrt(8) @ both
    np.testing.assert_allclose(mixed(state, np.random.default_rng(7)), expected, rtol=1e-12)


def test_looking_twice_gives_the_same_noise_and_another_draw_gives_other_noise() -> None:
    env = make_env(TASK, noise="gaussian")
    obs, _ = env.reset()
    again, other = env.unwrapped.observe(), env.unwrapped.observe(draw=1)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(again, obs)
    np.testing.assert_array_equal(other[:CARTPOLE], obs[:CARTPOLE])
    assert not np.isclose(other[CARTPOLE:], obs[CARTPOLE:]).any()
    env.close()


def test_a_saved_episode_continues_with_the_same_noise() -> None:
    env, second = make_env(TASK, noise="projected", seed=5), make_env(TASK, noise="projected", seed=0)
    env.reset()
    for _ in range(3):
        obs = env.step(np.full(1, 0.3, np.float32))[0]
    np.testing.assert_array_equal(second.restore(env.state()), obs)
    np.testing.assert_array_equal(second.step(np.zeros(1))[0], env.step(np.zeros(1))[0])
    env.close()
    second.close()


def test_states_can_be_stacked() -> None:
    env = make_env(TASK, frame_stack=2)
    first, _ = env.reset()
    obs, _, _, _, info = env.step(np.ones(1, np.float32))
    np.testing.assert_array_equal(obs, np.concatenate([first[CARTPOLE:], info["frame"]]))
    env.close()


def test_unseen_noise_has_another_mean() -> None:
    config = EnvConfig(TASK, noise=NoiseConfig(deviation=2.0, mean=0.5, shift=3.0))
    other = unseen(config)
    assert other is not None
    assert other.noise is not None
    assert other.noise.mean == 6.5
    assert unseen(EnvConfig(TASK)) is None


def test_a_run_from_states_has_an_mlp_one_frame_and_no_augmentation() -> None:
    config = configure(TASK, "drqv2:simsr+pamd", noise="projected", settings=["env.noise.deviation=4"])
    assert (config.scale, config.encoder.name, config.env.frame_stack) == ("state", "mlp", 1)
    assert config.learner.options.augmentation.name == "none"
    assert config.env.noise == noise("projected", deviation=4)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: make_env("cheetah_run", noise="gaussian"), ConfigError, "requires states"),
        (lambda: make_env(TASK, distractor="noise"), ConfigError, "requires images"),
        (lambda: make_env(TASK, noise="gausian"), UnknownNameError, "gaussian"),
        (lambda: resolve_env(EnvConfig("state:cartpole_swinup")), UnknownNameError, "cartpole_swingup"),
        (lambda: NoiseConfig(deviation=-1.0), ConfigError, "deviation must be a finite number of at least 0"),
        (lambda: NoiseConfig(mean=float("nan")), ConfigError, "mean must be a finite number"),
        (lambda: NoiseConfig(coordinates=0), ConfigError, "coordinates"),
        (lambda: configure(TASK, settings=["encoder.name=conv"]), ShapeError, "use encoder 'mlp'"),
        (lambda: configure(TASK, storage="compressed"), ConfigError, "Valid: auto, memory, mmap"),
        (
            lambda: configure(TASK, settings=["learner.augmentation.name=random-shift"]),
            ConfigError,
            "learner.augmentation.name=none",
        ),
    ],
)
def test_what_does_not_fit_states_is_refused(make: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()  # type: ignore[operator]


def test_the_augmentation_of_a_picture_task_stays() -> None:
    assert configure("cheetah_run", "drqv2").learner.options.augmentation == AugmentationPart("random-shift")


def test_pictures_of_a_state_task_show_the_task() -> None:
    env = build_env(EnvConfig(TASK, frame_stack=1, render="fast"), render_size=32)
    env.reset()
    picture = env.unwrapped.render()  # type: ignore[attr-defined]
    assert picture.shape == (32, 32, 3)
    assert picture.std() > 0
    env.close()
