"""Windows of rewards against a slow reference that walks from step to step."""

from __future__ import annotations

import dataclasses

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
@pytest.mark.parametrize("sequence", [False, True])
def test_equals_a_walk_after_every_frame(sequence: bool, window: int, frame_stack: int, n_step: int) -> None:
    replay, reference = make(14, frame_stack), Reference(14, frame_stack)
    for event in events_of([5, 1, 0, 2, 9, 3]):  # every second episode terminates; slots are overwritten on the way
        play(replay, [event])
        play(reference, [event])
        transitions, numbers = reference.transitions(), replay.transitions().tolist()
        if not numbers:
            continue
        batch = replay.take(replay.transitions(), window=window, sequence=sequence, n_step=n_step, gamma=0.9)
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
            np.testing.assert_array_equal(batch.window.last_obs[row].numpy(), steps[-1].next_obs)
            actions = [step.action for step in steps] + [steps[-1].action] * (window - len(steps))
            np.testing.assert_array_equal(batch.window.action[row].numpy(), np.stack(actions))  # type: ignore[index]
            assert batch.window.mask[row].tolist() == [k < len(steps) for k in range(window)]
            ended = [k == len(steps) - 1 and not steps[-1].not_done for k in range(window)]
            assert batch.window.terminated[row].tolist() == ended
            if not sequence:
                assert batch.window.sequence is None
                continue
            assert batch.window.obs is None
            assert batch.window.sequence is not None
            for k, step in enumerate(steps):
                np.testing.assert_array_equal(batch.window.sequence[row, k].numpy(), step.next_obs)


@pytest.mark.parametrize("shape", [(3, 8, 8), (5,)])
def test_a_sequence_stores_no_frame_twice(shape: tuple[int, ...]) -> None:
    replay = Replay.create(
        ReplayConfig(30, "memory"),
        frame_shape=shape,
        action_dim=1,
        frame_stack=3,
        dtype="uint8" if len(shape) == 3 else "float32",
    )
    frame = np.zeros(shape, replay.layout.dtype)
    replay.start(frame)
    for k in range(20):
        replay.add([0.0], 0.0, False, frame + np.asarray(k + 1, frame.dtype))
    batch = replay.take(replay.transitions(), window=5, sequence=True)
    assert batch.window is not None
    assert batch.window.sequence is not None
    stored = batch.window.sequence.untyped_storage()
    assert stored.data_ptr() == batch.obs.untyped_storage().data_ptr()
    assert stored.nbytes() == len(batch) * (3 + 5) * frame.nbytes
    assert torch.equal(batch.window.sequence[:, 0], batch.next_obs)


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
    with pytest.raises(ConfigError, match="sequence=True requires a window of at least 1 step"):
        replay.sample(2, np.random.default_rng(0), sequence=True)
    obs, row = torch.zeros(4, 3), torch.ones(4)
    short = Window(torch.zeros(4, 2), torch.ones(4, dtype=torch.int64), obs, torch.ones(3))
    with pytest.raises(ShapeError, match=r"Batch.window.not_done must be \[4\], got \[3\]"):
        Batch(obs, torch.zeros(4, 2), row, obs, row, window=short)
    right = dataclasses.replace(short, not_done=row)
    for wrong, says in (
        ({"action": torch.zeros(4, 2, 3)}, r"window.action must be \[4, 2, 2\], got \[4, 2, 3\]"),
        ({"sequence": torch.zeros(4, 3, 3)}, r"window.sequence must be \[4, 2, 3\], got \[4, 3, 3\]"),
        ({"obs": None}, "must have obs, the last observations, or sequence"),
    ):
        with pytest.raises(ShapeError, match=says):
            Batch(obs, torch.zeros(4, 2), row, obs, row, window=dataclasses.replace(right, **wrong))  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"Batch.original_obs must be \[4, 3\], got \[3, 3\]"):
        Batch(obs, torch.zeros(4, 2), row, obs, row, original_obs=obs[:3])
