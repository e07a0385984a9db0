"""Windows of rewards against a slow reference that walks from step to step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.replay.replay_reference import ACTION_DIM, FRAME_SHAPE, Reference, assert_rows, events_of, play

from pamd.errors import ConfigError, ShapeError
from pamd.replay import Replay, ReplayConfig
from pamd.types import Batch, Window


def make(capacity: int, frame_stack: int) -> Replay:
    return Replay.create(
        ReplayConfig(capacity, "memory"), frame_shape=FRAME_SHAPE, action_dim=ACTION_DIM, frame_stack=frame_stack
    )


@pytest.mark.parametrize("n_step", [1, 4])
@pytest.mark.parametrize("frame_stack", [1, 3])
@pytest.mark.parametrize("window", [1, 3, 20])
def test_equals_a_walk_after_every_frame(window: int, frame_stack: int, n_step: int) -> None:
    replay, reference = make(14, frame_stack), Reference(14, frame_stack)
    for event in events_of([5, 1, 0, 2, 9, 3]):  # every second episode terminates; slots are overwritten on the way
        play(replay, [event])
        play(reference, [event])
        transitions, numbers = reference.transitions(), replay.transitions().tolist()
        if not numbers:
            continue
        batch = replay.take(replay.transitions(), window=window, n_step=n_step, gamma=0.9)
        assert_rows(batch, [transitions[number] for number in numbers])
        assert batch.window is not None
        assert (batch.n_step is not None) == (n_step > 1)
        for row, number in enumerate(numbers):
            steps = [transitions[number]]
            while len(steps) < window and steps[-1].not_done and number + len(steps) in transitions:
                steps.append(transitions[number + len(steps)])
            rewards = [float(step.reward) for step in steps] + [0.0] * (window - len(steps))
            assert batch.window.reward[row].tolist() == rewards
            assert batch.window.length[row] == len(steps)
            assert batch.window.not_done[row] == steps[-1].not_done
            np.testing.assert_array_equal(batch.window.obs[row].numpy(), steps[-1].next_obs)


def test_the_same_generator_draws_the_same_transitions() -> None:
    replay = play(make(40, 2), events_of([9, 9, 9]))
    plain = replay.sample(16, np.random.default_rng(7))
    batch = replay.sample(16, np.random.default_rng(7), window=3)
    assert plain.window is None
    assert torch.equal(plain.obs, batch.obs)
    assert torch.equal(plain.reward, batch.reward)
    assert batch.to(torch.device("meta")).window.obs.device.type == "meta"  # type: ignore[union-attr]


def test_wrong_windows_are_named() -> None:
    replay = play(make(40, 2), events_of([9]))
    with pytest.raises(ConfigError, match="window must be a whole number of at least 0, got -1"):
        replay.sample(2, np.random.default_rng(0), window=-1)
    obs, row = torch.zeros(4, 3), torch.ones(4)
    short = Window(torch.zeros(4, 2), torch.ones(4, dtype=torch.int64), obs, torch.ones(3))
    with pytest.raises(ShapeError, match=r"Batch.window.not_done must be \[4\], got \[3\]"):
        Batch(obs, torch.zeros(4, 2), row, obs, row, window=short)
