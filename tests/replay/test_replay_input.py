"""Invalid values are refused with specific errors and leave the replay unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.replay.replay_reference import ACTION_DIM, FRAME_SHAPE, Reference, assert_same, events_of, play

from pamd.errors import DtypeError, PamdError, ReplayError, ShapeError
from pamd.replay import Replay, ReplayConfig
from pamd.types import Batch, NStep

FRAME = np.zeros(FRAME_SHAPE, np.uint8)
OBS = torch.zeros(4, 9, 8, 8)
GOOD = {"action": np.zeros(ACTION_DIM), "reward": 1.0, "terminated": False, "frame": FRAME}


def batch_of(**values: Any) -> Batch:
    ones = torch.ones(4)
    good = {"obs": OBS, "action": torch.zeros(4, 2), "reward": ones, "next_obs": OBS, "not_done": ones}
    return Batch(**{**good, **values})


@pytest.fixture
def replay() -> Replay:
    return Replay.create(ReplayConfig(20), frame_shape=FRAME_SHAPE, action_dim=ACTION_DIM)


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"frame": FRAME[0]}, ShapeError, r"\[2, 3, 4\], got \[3, 4\]"),
        ({"frame": FRAME.transpose(1, 2, 0)}, ShapeError, r"\[2, 3, 4\], got \[3, 4, 2\]"),
        ({"frame": FRAME.astype(np.float32)}, DtypeError, "uint8, got float32"),
        ({"frame": FRAME.tolist()}, DtypeError, "uint8, got list"),
        ({"action": np.zeros(3)}, ShapeError, r"\[2\], got \[3\]"),
        ({"action": np.zeros((1, 2))}, ShapeError, r"\[2\], got \[1, 2\]"),
        ({"action": 0.0}, ShapeError, r"\[2\], got \[\]"),
        ({"action": [0.0, float("nan")]}, ReplayError, "finite"),
        ({"action": ["left", "right"]}, DtypeError, "numbers"),
        ({"reward": float("nan")}, ReplayError, "finite float32, got nan"),
        ({"reward": float("-inf")}, ReplayError, "got -inf"),
        ({"reward": 1e39}, ReplayError, r"got 1e\+39"),
        ({"reward": "1"}, ReplayError, "got '1'"),
        ({"reward": np.zeros(1)}, ShapeError, r"\[1\]"),
        ({"terminated": 1}, DtypeError, "bool, got 1"),
        ({"terminated": 0.0}, DtypeError, "bool, got 0.0"),
    ],
)
def test_a_bad_step(replay: Replay, wrong: dict[str, Any], error: type[PamdError], says: str) -> None:
    events = events_of([5])
    play(replay, events)
    with pytest.raises(error, match=says):
        replay.add(**{**GOOD, **wrong})
    assert_same(replay, play(Reference(20, 3), events))
    if "frame" in wrong:
        with pytest.raises(error, match=says):
            replay.start(wrong["frame"])


def test_add_before_start(replay: Replay) -> None:
    with pytest.raises(ReplayError, match="add was called before start"):
        replay.add(**GOOD)


def test_add_after_the_end(replay: Replay) -> None:
    play(replay, events_of([3]))
    with pytest.raises(ReplayError, match="after the end of the episode"):
        replay.add(**GOOD)
    replay.start(FRAME)
    replay.add(**GOOD)
    assert len(replay) == 4


def test_start_leaves_an_unfinished_episode(replay: Replay) -> None:
    for _ in range(3):
        replay.start(FRAME)
    replay.add(**GOOD)
    replay.start(FRAME)
    assert replay.transitions().tolist() == [2]


def test_kinds_of_number_that_are_welcome(replay: Replay) -> None:
    replay.start(FRAME)
    replay.add([1, 2], 1, False, FRAME)
    replay.add(np.array([3, 4], np.float64), np.float64(0.5), np.False_, np.asfortranarray(FRAME))
    batch = replay.take(replay.transitions())
    assert batch.action.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert batch.reward.tolist() == [1.0, 0.5]


def test_the_replay_keeps_its_own_copy(replay: Replay) -> None:
    """Environments hand out the same array again and again."""
    frame, action = np.full(FRAME_SHAPE, 1, np.uint8), np.ones(ACTION_DIM, np.float32)
    replay.start(frame)
    replay.add(action, 1.0, False, frame)
    frame[:], action[:] = 2, 2.0
    batch = replay.take(replay.transitions())
    assert batch.obs.unique().tolist() == batch.action.unique().tolist() == [1]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"obs": torch.zeros(4)}, r"obs must be \[B, ...\] with at least two axes, got \[4\]"),
        ({"obs": torch.zeros(4, 9, 8)}, r"next_obs must be \[4, 9, 8\], got \[4, 9, 8, 8\]"),
        ({"action": torch.zeros(4, 2, 1)}, r"action must be \[4, A\], or \[4\] if discrete, got \[4, 2, 1\]"),
        ({"action": torch.zeros(3, 2)}, r"action must be \[4, A\], or \[4\] if discrete, got \[3, 2\]"),
        ({"action": torch.zeros(3, dtype=torch.int64)}, r"got \[3\]"),
        ({"n_step": NStep(torch.zeros(3), OBS, torch.zeros(4))}, r"n_step.reward must be \[4\], got \[3\]"),
        ({"n_step": NStep(torch.zeros(4), OBS[:3], torch.zeros(4))}, r"n_step.next_obs must be \[4, 9, 8, 8\]"),
        ({"n_step": NStep(torch.zeros(4), OBS, torch.zeros(4, 1))}, r"n_step.discount must be \[4\]"),
        ({"reward": torch.zeros(4, 1)}, r"reward must be \[4\], got \[4, 1\]"),
        ({"not_done": torch.zeros(4, 1)}, r"not_done must be \[4\]"),
        ({"next_obs": torch.zeros(4, 9, 8, 7)}, r"next_obs must be \[4, 9, 8, 8\], got \[4, 9, 8, 7\]"),
    ],
)
def test_a_batch_checks_its_shapes(wrong: dict[str, torch.Tensor], says: str) -> None:
    with pytest.raises(ShapeError, match=says):
        batch_of(**wrong)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"obs": OBS.bool()}, "obs must be uint8, another integer type or floating-point, got torch.bool"),
        ({"action": torch.zeros(4)}, r"action of shape \[4\] must be int64 \(discrete actions\), got torch.float32"),
        ({"action": torch.zeros(4, 2).long()}, r"action of shape \[4, 2\] must be float32, got torch.int64"),
    ],
)
def test_a_batch_checks_its_types(wrong: dict[str, torch.Tensor], says: str) -> None:
    with pytest.raises(DtypeError, match=says):
        batch_of(**wrong)


@pytest.mark.parametrize("obs", [OBS, OBS.byte(), torch.zeros(4, 17), torch.zeros(4, 2, 3, 4, 5)])
@pytest.mark.parametrize("action", [torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64)])
def test_a_batch_of_any_observation_and_action(obs: torch.Tensor, action: torch.Tensor) -> None:
    for n_step in (None, NStep(torch.zeros(4), obs, torch.ones(4))):
        batch = batch_of(obs=obs, next_obs=obs, action=action, n_step=n_step)
        assert len(batch) == 4
        assert batch.to(torch.device("cpu")) == batch
        moved = batch.to(torch.device("meta"))
        assert {moved.obs.device.type, moved.action.device.type, moved.not_done.device.type} == {"meta"}
        assert (moved.n_step is None) == (n_step is None)
        assert moved.n_step is None or moved.n_step.discount.device.type == "meta"
