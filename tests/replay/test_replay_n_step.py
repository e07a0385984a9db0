"""N-step sampling against a slow reference that walks from step to step."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.replay.replay_reference import (
    ACTION_DIM,
    FIELDS,
    FRAME_SHAPE,
    Reference,
    Transition,
    assert_rows,
    events_of,
    play,
    random_events,
)

from pamd.errors import ConfigError
from pamd.replay import Replay, ReplayConfig
from pamd.replay.layout import STORAGES


def make(capacity: int, frame_stack: int = 3, storage: str = "memory", directory: Path | None = None) -> Replay:
    return Replay.create(
        ReplayConfig(capacity, storage),
        frame_shape=FRAME_SHAPE,
        action_dim=ACTION_DIM,
        frame_stack=frame_stack,
        margin=4 if directory else 0,
        directory=directory,
    )


def walked(
    transitions: dict[int, Transition], number: int, n_step: int, gamma: float
) -> tuple[float, np.ndarray, float]:
    """Reward, next observation and discount of up to `n_step` steps from transition `number`."""
    reward, discount = 0.0, 1.0
    for step in range(n_step):
        here = transitions[number + step]
        reward += discount * float(here.reward)
        discount *= gamma
        if here.not_done == 0:
            return reward, here.next_obs, 0.0
        # The last frame of an episode, and the newest frame of the replay, start no transition.
        if number + step + 1 not in transitions:
            break
    return reward, here.next_obs, discount


def assert_walked(replay: Replay, reference: Reference, n_step: int, gamma: float) -> None:
    transitions = reference.transitions()
    numbers = replay.transitions()
    batch = replay.take(numbers, n_step=n_step, gamma=gamma)
    assert_rows(batch, [transitions[number] for number in numbers.tolist()])
    assert batch.n_step is not None
    expected = [walked(transitions, number, n_step, gamma) for number in numbers.tolist()]
    rewards, next_obs, discounts = zip(*expected, strict=True)
    np.testing.assert_allclose(batch.n_step.reward.numpy(), np.array(rewards), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(batch.n_step.next_obs.numpy(), np.stack(next_obs))
    np.testing.assert_allclose(batch.n_step.discount.numpy(), np.array(discounts), rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    frame_stack=st.integers(1, 4),
    spare=st.integers(0, 20),
    n_step=st.integers(2, 8),
    gamma=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
    storage=st.sampled_from(STORAGES),
)
def test_equals_a_walk_after_every_frame(
    lengths: list[int], frame_stack: int, spare: int, n_step: int, gamma: float, storage: str
) -> None:
    capacity = frame_stack + 1 + spare
    with tempfile.TemporaryDirectory() as place:
        replay = make(capacity, frame_stack, storage, Path(place))
        reference = Reference(capacity, frame_stack)
        for event in events_of(lengths):
            play(replay, [event])
            play(reference, [event])
            if len(replay):
                assert_walked(replay, reference, n_step, gamma)


def test_the_window_ends_at_a_termination_a_time_limit_and_the_newest_frame() -> None:
    replay = make(20)
    frames = [np.full(FRAME_SHAPE, number, np.uint8) for number in range(9)]
    action = np.zeros(ACTION_DIM)
    replay.start(frames[0])  # It terminates after two steps.
    replay.add(action, 1.0, False, frames[1])
    replay.add(action, 2.0, True, frames[2])
    replay.start(frames[3])  # A time limit ends it after two steps.
    replay.add(action, 4.0, False, frames[4])
    replay.add(action, 8.0, False, frames[5])
    replay.start(frames[6])  # It is still running.
    replay.add(action, 16.0, False, frames[7])
    replay.add(action, 32.0, False, frames[8])
    batch = replay.take(replay.transitions(), n_step=3, gamma=0.5)
    assert batch.n_step is not None
    assert batch.n_step.reward.tolist() == [2.0, 2.0, 8.0, 8.0, 32.0, 32.0]
    assert batch.n_step.discount.tolist() == [0.0, 0.0, 0.25, 0.5, 0.25, 0.5]
    assert batch.n_step.next_obs[:, -1, 0, 0].tolist() == [2, 2, 5, 5, 8, 8]
    assert batch.not_done.tolist() == [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]


def test_stale_steps_of_an_earlier_lap_count_nothing() -> None:
    """The slot of an episode's last frame keeps the step of the frame that it replaced."""
    replay, reference = make(6, 1), Reference(6, 1)
    for target in (replay, reference):
        play(target, events_of([5, 1, 1, 1]))  # The first terminates; its flag stays in the slot of a last frame.
    assert replay.written > replay.layout.capacity
    assert_walked(replay, reference, 3, 0.9)


@pytest.mark.parametrize("n_step", [2, 3, 50])
def test_the_same_generator_draws_the_same_transitions(directory: Path, storage: str, n_step: int) -> None:
    replay = play(make(40, storage=storage, directory=directory), random_events(5, 100))
    one, several = np.random.default_rng(7), np.random.default_rng(7)
    for _ in range(5):
        plain = replay.sample(16, one)
        batch = replay.sample(16, several, buffer=1, n_step=n_step, gamma=0.9)
        assert plain.n_step is None
        assert batch.n_step is not None
        assert all(torch.equal(getattr(plain, name), getattr(batch, name)) for name in FIELDS)
    assert one.integers(1000) == several.integers(1000)


def test_one_step_ignores_gamma_and_has_no_returns() -> None:
    replay = play(make(40), random_events(5, 100))
    plain, discounted = replay.take(replay.transitions()), replay.take(replay.transitions(), 1, n_step=1, gamma=0.5)
    assert plain.n_step is discounted.n_step is None
    assert all(torch.equal(getattr(plain, name), getattr(discounted, name)) for name in FIELDS)


def test_batches_reuse_their_memory() -> None:
    replay = play(make(40), random_events(5, 100))
    rng = np.random.default_rng(0)
    batch = replay.sample(16, rng, n_step=3)
    assert batch.n_step is not None
    kept = batch.n_step.next_obs.clone()
    replay.sample(16, rng)
    assert torch.equal(batch.n_step.next_obs, kept), "one-step batches have their own memory"
    again = replay.sample(16, rng, n_step=3)
    assert again is batch
    assert not torch.equal(batch.n_step.next_obs, kept)
    one_gather = {item.untyped_storage().data_ptr() for item in (batch.obs, batch.next_obs, batch.n_step.next_obs)}
    assert len(one_gather) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_step": 0}, "n_step must be a whole number of at least 1, got 0"),
        ({"n_step": 1.5}, "n_step"),
        ({"n_step": True}, "n_step"),
        ({"n_step": 3, "gamma": 1.1}, r"gamma must lie in \[0, 1\], got 1.1"),
        ({"n_step": 3, "gamma": float("nan")}, "gamma"),
    ],
)
def test_wrong_options_are_named(options: dict[str, float], says: str) -> None:
    replay = play(make(40), random_events(5, 100))
    with pytest.raises(ConfigError, match=says):
        replay.sample(4, np.random.default_rng(0), **options)
    with pytest.raises(ConfigError, match=says):
        replay.take(replay.transitions(), **options)
