"""A replay that was killed and reopened equals one that was never interrupted."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.replay import replay_child
from tests.replay.replay_reference import (
    ACTION_DIM,
    FIELDS,
    FRAME_SHAPE,
    Event,
    Reference,
    assert_same,
    events_of,
    play,
    random_events,
)

from pamd.errors import ReplayError
from pamd.replay import Replay, ReplayConfig
from pamd.replay.layout import STORAGES

ROOT = Path(__file__).parents[2]

CAPACITY, MARGIN = 30, 12


@pytest.fixture(autouse=True, scope="module")
def without_fsync() -> Iterator[None]:
    """A kill loses nothing that was written, only a power cut does; and syncing to the disk is slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


def make(directory: Path | None, storage: str, capacity: int = CAPACITY, margin: int = MARGIN) -> Replay:
    return Replay.create(
        ReplayConfig(capacity, storage),
        frame_shape=FRAME_SHAPE,
        action_dim=ACTION_DIM,
        margin=margin,
        directory=directory,
    )


def twin(events: list[Event], capacity: int = CAPACITY) -> Reference:
    """What an uninterrupted run would hold."""
    return play(Reference(capacity, 3), events)


def assert_continues(replay: Replay, events: list[Event], stop: int) -> None:
    """From where it is to frame `stop`, contents and batches are those of an uninterrupted run."""
    assert_same(replay, twin(events[: replay.written]))
    uninterrupted = play(make(None, "memory"), events[: replay.written])
    ours, theirs = np.random.default_rng(0), np.random.default_rng(0)
    for event in events[replay.written : stop]:
        play(replay, [event])
        play(uninterrupted, [event])
        if len(replay) >= 4:
            batch, expected = replay.sample(4, ours), uninterrupted.sample(4, theirs)
            assert all(torch.equal(getattr(batch, name), getattr(expected, name)) for name in FIELDS)
    assert_same(replay, twin(events[:stop]))


@pytest.mark.parametrize("reopened_as", STORAGES)
@pytest.mark.parametrize("written", [0, 1, 10, CAPACITY, CAPACITY + 5, 100, 3 * (CAPACITY + MARGIN)])
def test_round_trip(directory: Path, storage: str, reopened_as: str, written: int) -> None:
    events = random_events(1, 140)
    replay = play(make(directory, storage), events[:written])
    state = replay.sync()
    del replay
    assert_same(Replay.open(directory, read_only=True), twin(events[:written]))
    assert_same(Replay.open(directory, state=state, storage=reopened_as), twin(events[:written]))
    replay = Replay.open(directory, state=state)
    assert replay.layout.storage == reopened_as, "what it was opened as last"
    assert_continues(replay, events, written + MARGIN)


@pytest.mark.parametrize("first", [1, 8, 28, 30, 37, 42, 80, 84])
@pytest.mark.parametrize("from_older", [False, True], ids=["newest", "older"])
def test_killed_with_the_margin_full(directory: Path, storage: str, first: int, from_older: bool) -> None:
    events = random_events(2, 140)
    replay = play(make(directory, storage), events[:first])
    older = replay.sync()
    newer = play(replay, events[first : first + MARGIN // 2]).sync()
    stop = max(first, CAPACITY) + MARGIN
    play(replay, events[first + MARGIN // 2 : stop])
    with pytest.raises(ReplayError, match=f"at {first} needs: .* margin {MARGIN} allow {stop}"):
        play(replay, events[stop : stop + 1])
    assert replay.written == stop
    del replay
    replay = Replay.open(directory, state=older if from_older else newer)
    assert replay.written == first + (0 if from_older else MARGIN // 2)
    assert_continues(replay, events, replay.written + MARGIN // 2)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("at", range(10))
def test_killed_anywhere_in_a_sync(directory: Path, storage: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever step was the last, the two checkpoints that a loop has kept can be opened."""
    events = random_events(4, 140)
    replay = play(make(directory, storage), events[:70])
    states = {70: replay.sync()}
    states[76] = play(replay, events[70:76]).sync()
    play(replay, events[76:82])
    left = iter(range(at))

    def fsync_or_die(handle: int) -> None:
        if next(left, None) is None:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync_or_die)
        # Durable in this order: five columns, replay.json, its name; with the first frame after, the last two again.
        with pytest.raises(Killed) if at < 9 else contextlib.nullcontext():
            states[82] = replay.sync()
            play(replay, events[82:84])
    del replay
    openable = {70: at < 8, 76: True, 82: at > 5}
    synced = {state["written"]: state for state in json.loads((directory / "replay.json").read_text())["syncs"]}
    lost = {"written": 82, "transitions": len(twin(events[:82]).transitions()), "checks": {}}
    states.setdefault(82, synced.get(82, lost))
    for written, state in states.items():
        copy = directory.parent / f"copy-{written}"
        shutil.copytree(directory, copy)
        if openable[written]:
            assert_continues(Replay.open(copy, state=state), events, 82)
        else:
            with pytest.raises(ReplayError, match=f"belongs to {written} .* holds the syncs .*76"):
                Replay.open(copy, state=state)


@settings(max_examples=40, deadline=None)
@given(
    storage=st.sampled_from(STORAGES),
    capacity=st.integers(4, 40),
    margin=st.integers(4, 30),
    interval=st.integers(1, 40),
    killed=st.integers(1, 180),
    seed=st.integers(0, 999),
)
def test_a_loop_that_heeds_needs_sync(
    storage: str, capacity: int, margin: int, interval: int, killed: int, seed: int
) -> None:
    """It never meets the error, and wherever it is killed both checkpoints that it keeps are whole."""
    events = random_events(seed, 180, longest=5)
    with tempfile.TemporaryDirectory() as place:
        replay = make(Path(place), storage, capacity, margin)
        kept: list[dict[str, Any]] = []
        while replay.written < killed:
            # One iteration: a step, and where the episode ends with it the first frame of the next.
            iteration = events[replay.written : replay.written + 1]
            following = events[replay.written + 1 : replay.written + 2]
            play(replay, iteration + [event for event in following if event.action is None])
            if replay.needs_sync or replay.written - (kept[-1]["written"] if kept else 0) >= interval:
                kept = [*kept, replay.sync()][-2:]
        del replay
        for state in kept:
            with tempfile.TemporaryDirectory() as copy:
                shutil.copytree(place, copy, dirs_exist_ok=True)
                assert_same(Replay.open(copy, state=state), twin(events[: state["written"]], capacity))


def test_killed_for_good(tmp_path: Path, storage: str) -> None:
    """SIGKILL, three times over, at moments that nobody chose; each life resumes the one before."""
    events = random_events(3, replay_child.EVENTS, shape=replay_child.SHAPE)
    rng = np.random.default_rng(0)
    reached = 0
    for life in range(3):
        wanted = reached + 2 * (replay_child.CAPACITY + replay_child.MARGIN)
        run_and_kill(tmp_path, storage, wanted, patience=float(rng.uniform(0, 0.02)))
        states = replay_child.kept_states(tmp_path)
        assert len(states) == 2
        assert reached < states[0]["written"] < states[1]["written"] < replay_child.EVENTS, f"life {life}"
        reached = states[1]["written"]
        for state in states:
            replay = Replay.open(tmp_path / "replay", state=state, read_only=True)
            uninterrupted = Reference(replay_child.CAPACITY, replay_child.FRAME_STACK)
            assert_same(replay, play(uninterrupted, events[: state["written"]]))
    shutil.rmtree(tmp_path)


def run_and_kill(directory: Path, storage: str, wanted: int, patience: float) -> None:
    """Let the child get as far as a checkpoint at `wanted` frames, and a little further."""
    deadline = time.monotonic() + 30
    words = [sys.executable, "-m", "tests.replay.replay_child", str(directory), storage]
    with subprocess.Popen(words, cwd=ROOT) as child:
        try:
            while replay_child.newest_checkpoint(directory) < wanted:
                assert child.poll() is None, "the child ended by itself"
                assert time.monotonic() < deadline
                time.sleep(0.002)
            time.sleep(patience)
        finally:
            child.send_signal(signal.SIGKILL)


def test_resuming_leaves_a_later_sync_behind(directory: Path, storage: str) -> None:
    """Killed between the sync and its checkpoint: the run goes on from the one before, and the files follow it."""
    events = random_events(6, 100)
    replay = play(make(directory, storage), events[:50])
    first = replay.sync()
    lost = play(replay, events[50:56]).sync()
    replay = Replay.open(directory, state=first)
    another_future = events_of([40])
    play(replay, another_future[:3])
    assert_same(Replay.open(directory, read_only=True), twin(events[:50]))
    with pytest.raises(ReplayError, match=r"belongs to 56 .* holds the syncs 50 \("):
        Replay.open(directory, state=lost)
    assert_same(replay, twin(events[:50] + another_future[:3]))
    state = replay.sync()
    assert_same(Replay.open(directory, state=state), twin(events[:50] + another_future[:3]))


def test_a_second_sync_at_the_same_point_changes_nothing(directory: Path, storage: str) -> None:
    events = random_events(6, 100)
    replay = play(make(directory, storage), events[:50])
    older = replay.sync()
    newer = play(replay, events[50:54]).sync()
    assert replay.sync() == newer
    assert_same(Replay.open(directory, state=older, read_only=True), twin(events[:50]))
    play(replay, events[54:62])
    with pytest.raises(ReplayError, match="at 50 needs"):
        play(replay, events[62:63])


def test_without_a_sync_there_is_no_limit(directory: Path, storage: str) -> None:
    events = random_events(7, 500)
    replay = play(make(directory, storage), events)
    assert not replay.needs_sync
    assert_same(replay, twin(events))
    assert Replay.open(directory, read_only=True).written == 0, "nothing was promised"
    state = replay.sync()
    assert not replay.needs_sync
    assert_same(Replay.open(directory, state=state), twin(events))


def test_needs_sync_at_half_of_the_margin(directory: Path, storage: str) -> None:
    events = events_of([200])
    replay = play(make(directory, storage), events[:10])
    replay.sync()
    asked = []
    for event in events[10:100]:
        play(replay, [event])
        if replay.needs_sync:
            asked.append(replay.written)
            replay.sync()
    # Until the ring is full there is nothing to overwrite; then every MARGIN // 2 - 1 frames.
    assert asked[:4] == [35, 40, 45, 50]


def test_read_only(directory: Path, storage: str) -> None:
    events = random_events(8, 60)
    writer = play(make(directory, storage), events[:50])
    writer.sync()
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    reader = Replay.open(directory, read_only=True)
    for forbidden in (lambda: reader.start(events[0].frame), reader.sync, lambda: play(reader, events[50:51])):
        with pytest.raises(ReplayError, match="read-only"):
            forbidden()
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    play(writer, events[50:58])
    assert_same(reader, twin(events[:50]))  # While the run goes on.


def test_an_episode_goes_on_after_a_resume(directory: Path, storage: str) -> None:
    events = events_of([5, 5])  # The first terminates, the second does not.
    replay = play(make(directory, storage), events[:6])
    state = replay.sync()
    replay = Replay.open(directory, state=state)
    with pytest.raises(ReplayError, match="call start for the next one"):
        replay.add(np.zeros(2), 0.0, False, events[0].frame)
    replay.sync()
    state = play(replay, events[6:9]).sync()
    assert_same(play(Replay.open(directory, state=state), events[9:]), twin(events))


def test_sync_without_a_directory() -> None:
    replay = play(make(None, "memory"), random_events(1, 200))
    assert not replay.needs_sync
    with pytest.raises(ReplayError, match="directory"):
        replay.sync()
