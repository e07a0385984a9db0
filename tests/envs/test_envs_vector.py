"""Environments in processes of their own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import numpy as np
import pytest

from pamd.envs import make_env, make_vector_env
from pamd.envs.vector import Workers
from pamd.envs.wrappers import derive_seed
from pamd.errors import ConfigError, ShapeError, TaskError, UnknownNameError


@pytest.fixture
def pair() -> Iterator[Workers]:
    envs = make_vector_env("toy", 2, seed=3, size=16)
    yield envs
    envs.close()


def moves(count: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (count, 2, 2)).astype(np.float32)


def test_copies_are_the_single_environments_with_derived_seeds(pair: Workers) -> None:
    singles = [make_env("toy", size=16, seed=derive_seed(3, index)) for index in range(2)]
    observations, infos = pair.reset()
    assert (observations.shape, infos["frame"].shape) == ((2, 9, 16, 16), (2, 3, 16, 16))
    np.testing.assert_array_equal(observations, np.stack([env.reset()[0] for env in singles]))
    assert (observations[0] != observations[1]).any()
    for actions in moves(50):
        observations, rewards, terminated, truncated, infos = pair.step(actions)
        steps = [env.step(action) for env, action in zip(singles, actions, strict=True)]
        assert rewards.tolist() == [step[1] for step in steps]
        assert truncated.tolist() == [step[3] for step in steps]
        assert not terminated.any()
        if truncated.any():
            # The next episode has begun within the step; what it ended with is beside it.
            for index, step in enumerate(steps):
                np.testing.assert_array_equal(infos["final_obs"][index], step[0])
                np.testing.assert_array_equal(infos["final_info"]["frame"][index], step[4]["frame"])
            assert infos["final_info"]["frames"].tolist() == [1, 1]
            np.testing.assert_array_equal(observations, np.stack([env.reset()[0] for env in singles]))
        else:
            np.testing.assert_array_equal(observations, np.stack([step[0] for step in steps]))
            assert infos["frames"].tolist() == [1, 1]


def test_a_seed_begins_anew_and_states_resume(pair: Workers) -> None:
    first = pair.reset()[0]
    for actions in moves(45):
        pair.step(actions)
    states = pair.states()
    assert [state["episode"] for state in states] == [1, 1]
    expected = pair.step(moves(1)[0])
    np.testing.assert_array_equal(pair.reset(seed=3)[0], first)
    assert pair.restore(states) is not None
    again = pair.step(moves(1)[0])
    np.testing.assert_array_equal(again[0], expected[0])
    np.testing.assert_array_equal(again[1], expected[1])
    with pytest.raises(ShapeError, match="restore takes one entry per copy, 2, got 1"):
        pair.restore(states[:1])


def test_a_killed_worker_is_an_error_and_not_a_hang() -> None:
    envs = make_vector_env("toy", 2, size=16)
    envs.reset()
    os.kill(envs.processes[1].pid, signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(TaskError, match=r"'toy': worker 1 of 2 died \(exit code -9\)"):
        envs.step(moves(1)[0])
    with pytest.raises(TaskError, match="after its workers were closed"):
        envs.step(moves(1)[0])
    envs.close()
    assert time.monotonic() - start < 10
    assert not any(process.is_alive() for process in envs.processes)


def test_an_error_in_a_worker_is_raised_here(pair: Workers) -> None:
    with pytest.raises(TaskError, match=r"call reset first \(in worker 0 of 2\)"):
        pair.step(moves(1)[0])
    assert not any(process.is_alive() for process in pair.processes)


def test_actions_that_do_not_fit(pair: Workers) -> None:
    pair.reset()
    with pytest.raises(ShapeError, match="one entry per copy, 2, got 3"):
        pair.step(np.zeros((3, 2), np.float32))
    with pytest.raises(ShapeError, match=r"must be \[2\], got \[5\]"):
        pair.step(np.zeros((2, 5), np.float32))


def test_pictures(pair: Workers) -> None:
    pair.reset()
    assert [picture.shape for picture in pair.render()] == [(16, 16, 3)] * 2


def test_mujoco_draws_in_workers() -> None:
    envs = make_vector_env("cheetah_run", 2, size=24, render="fast")
    observations, _ = envs.reset()
    single = make_env("cheetah_run", size=24, render="fast", seed=derive_seed(0, 1))
    np.testing.assert_array_equal(observations[1], single.reset()[0])
    assert observations.std() > 10
    assert envs.step(np.ones((2, 6), np.float32))[4]["frames"].tolist() == [4, 4]
    envs.close()
    single.close()
    assert not any(process.is_alive() for process in envs.processes)


def test_bad_calls() -> None:
    with pytest.raises(ConfigError, match="count must be a whole number of at least 1, got 0"):
        make_vector_env("toy", 0)
    with pytest.raises(UnknownNameError, match="Did you mean 'size'"):
        make_vector_env("toy", 1, sizes=16)
    with pytest.raises(UnknownNameError, match="Did you mean 'cheetah_run'"):
        make_vector_env("cheetah_rum", 1)
    with pytest.raises(ConfigError, match="seed must be"):
        make_vector_env("toy", 1, seed=-1)
