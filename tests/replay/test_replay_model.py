"""Samples equal those of a frame-stacking wrapper with a list of all transitions."""

from __future__ import annotations

import subprocess
import sys
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
    assert_same,
    assert_sampled,
    events_of,
    play,
    random_events,
)

from pamd.errors import ReplayError
from pamd.replay import Replay, ReplayConfig


def make(capacity: int, frame_stack: int = 3, storage: str = "memory", directory: Path | None = None) -> Replay:
    return Replay.create(
        ReplayConfig(capacity, storage),
        frame_shape=FRAME_SHAPE,
        action_dim=ACTION_DIM,
        frame_stack=frame_stack,
        margin=4 if directory else 0,
        directory=directory,
    )


LENGTHS = st.lists(st.integers(0, 12), min_size=1, max_size=25)


@settings(max_examples=120, deadline=None)
@given(lengths=LENGTHS, frame_stack=st.integers(1, 4), spare=st.integers(0, 30), seed=st.integers(0, 99))
def test_equals_the_reference_after_every_frame(lengths: list[int], frame_stack: int, spare: int, seed: int) -> None:
    capacity = frame_stack + 1 + spare
    replay, reference = make(capacity, frame_stack), Reference(capacity, frame_stack)
    rng = np.random.default_rng(seed)
    for event in events_of(lengths):
        play(replay, [event])
        play(reference, [event])
        assert len(replay) == len(reference.transitions())
        if len(replay) and rng.random() < 0.3:
            assert_same(replay, reference)
            assert_sampled(replay.sample(min(len(replay), 8), rng), reference)
    assert_same(replay, reference)


@settings(max_examples=50, deadline=None)
@given(
    lengths=LENGTHS,
    frame_stack=st.integers(1, 4),
    spare=st.integers(0, 30),
)
def test_the_other_storage_too(lengths: list[int], frame_stack: int, spare: int) -> None:
    capacity = frame_stack + 1 + spare
    with tempfile.TemporaryDirectory() as place:
        replay = make(capacity, frame_stack, "mmap", Path(place))
        reference = Reference(capacity, frame_stack)
        for event in events_of(lengths):
            play(replay, [event])
            play(reference, [event])
            assert_same(replay, reference)


def test_the_first_stacks_of_an_episode_repeat_its_first_frame() -> None:
    replay = make(20)
    # An episode before, so that a wrong clip shows its frames.
    play(replay, events_of([3, 4]))
    first = 4
    batch = replay.take(np.array([first, first + 1, first + 2]))
    channels = FRAME_SHAPE[0]
    # Each frame carries its number in its first bytes, so the first pixel of each frame is enough to name it.
    states = [[int(batch.obs[row, k * channels, 0, 0]) for k in range(3)] for row in range(3)]
    next_states = [[int(batch.next_obs[row, k * channels, 0, 0]) for k in range(3)] for row in range(3)]
    assert states == [[4, 4, 4], [4, 4, 5], [4, 5, 6]]
    assert next_states == [[4, 4, 5], [4, 5, 6], [5, 6, 7]]


def test_a_terminated_episode_is_not_bootstrapped_and_a_time_limit_is() -> None:
    replay = play(make(20), events_of([2, 2]))  # The first terminates, the second is cut.
    batch = replay.take(replay.transitions())
    assert batch.not_done.tolist() == [1.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("longest", [9, 0.4], ids=["by rejection", "by listing"])
def test_uniform_over_all_transitions(longest: float) -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 10, 60) if longest > 1 else (rng.random(400) < 0.1).astype(int)
    replay, reference = make(200), Reference(200, 3)
    for target in (replay, reference):
        play(target, events_of(lengths.tolist()))
    assert replay.written > 200, "the ring has gone round"
    numbers = sorted(reference.transitions())
    assert (len(numbers) < 50) == (longest < 1), "this case is meant for the other way of drawing"
    counts = dict.fromkeys(numbers, 0)
    draws = 400 * len(numbers)
    for _ in range(draws // 10):
        for number in replay.sample(10, rng).action[:, 0].tolist():
            counts[int(number)] += 1  # A KeyError is a transition that does not exist.
    assert min(counts.values()) > 0
    expected = draws / len(numbers)
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    freedom = len(numbers) - 1
    assert abs(chi_square - freedom) < 4 * np.sqrt(2 * freedom)


def test_the_rows_of_a_batch_are_independent() -> None:
    replay = play(make(30), events_of([29]))
    rng = np.random.default_rng(0)
    pairs = np.array([replay.sample(2, rng).action[:, 0].tolist() for _ in range(6000)], dtype=int)
    repeated = (pairs[:, 0] == pairs[:, 1]).mean()
    assert repeated == pytest.approx(1 / len(replay), rel=0.25)
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 0.05


def test_same_generator_same_batches_in_every_storage(directory: Path, storage: str) -> None:
    events = random_events(5, 100)
    one, two = play(make(40), events), play(make(40, storage=storage, directory=directory), events)
    first, second, other = (np.random.default_rng(seed) for seed in (7, 7, 8))
    for _ in range(5):
        batch, same, different = one.sample(16, first), two.sample(16, second), two.sample(16, other, buffer=1)
        assert all(torch.equal(getattr(batch, name), getattr(same, name)) for name in FIELDS)
        assert not torch.equal(batch.action, different.action)
    assert first.integers(1000) == second.integers(1000)


def test_batches_are_views_of_reused_memory() -> None:
    replay = play(make(40), random_events(5, 100))
    rng = np.random.default_rng(0)
    batch = replay.sample(16, rng)
    kept = batch.obs.clone()
    assert batch.obs.dtype == batch.next_obs.dtype == torch.uint8
    assert batch.action.dtype == batch.reward.dtype == batch.not_done.dtype == torch.float32
    assert batch.obs.untyped_storage().data_ptr() == batch.next_obs.untyped_storage().data_ptr()
    assert batch.obs.untyped_storage().nbytes() == 16 * 4 * int(np.prod(FRAME_SHAPE)), "stack + 1 frames a row"
    other = replay.sample(16, rng, buffer=1)
    assert torch.equal(batch.obs, kept), "two batches are alive"
    assert not torch.equal(other.obs, kept)
    again = replay.sample(16, rng)
    assert again.obs.data_ptr() == batch.obs.data_ptr()
    assert not torch.equal(batch.obs, kept)
    assert len(replay.sample(5, rng)) == 5


def test_too_few_transitions() -> None:
    rng = np.random.default_rng(0)
    replay = make(20)
    with pytest.raises(ReplayError, match=r"batch of 1 .* holds 0"):
        replay.sample(1, rng)
    play(replay, events_of([4]))
    assert len(replay.sample(4, rng)) == 4
    with pytest.raises(ReplayError, match=r"batch of 5 .* holds 4"):
        replay.sample(5, rng)
    with pytest.raises(ReplayError, match="batch of 0"):
        replay.sample(0, rng)


def test_take_knows_what_is_not_there() -> None:
    replay = play(make(20), events_of([2, 2]))
    for wrong in ([2], [-1], [5], [0, 99]):  # 2 is the last frame of an episode, 5 the newest.
        with pytest.raises(ReplayError, match=rf"unknown: \[{wrong[-1]}\]"):
            replay.take(np.array(wrong))
    with pytest.raises(ReplayError, match=r"\[B\] transitions"):
        replay.take(np.zeros((1, 1), np.int64))
    with pytest.raises(ReplayError, match=r"\[0\]"):
        replay.take(np.zeros(0, np.int64))


def test_collecting_needs_no_torch() -> None:
    code = (
        "import sys, numpy as np; from pamd.replay import Replay, ReplayConfig;"
        "r = Replay.create(ReplayConfig(9), frame_shape=(1, 2, 2), action_dim=1);"
        "r.start(np.zeros((1, 2, 2), np.uint8)); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
