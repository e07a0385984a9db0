"""Growing a replay on disk keeps all frames, and a kill leaves the old or the new replay intact."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.replay.replay_reference import ACTION_DIM, FIELDS, FRAME_SHAPE, Reference, assert_same, play, random_events

from pamd.errors import ConfigError, ReplayError, ResourceError
from pamd.replay import Replay, ReplayConfig, files

CAPACITY, MARGIN, GROWN = 40, 12, 90
EVENTS = random_events(4, 140)


@pytest.fixture(autouse=True, scope="module")
def without_fsync() -> Iterator[None]:
    """A kill loses nothing that was written, only a power cut does; and syncing to the disk is slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


def make(directory: Path | None, storage: str = "memory", capacity: int = CAPACITY) -> Replay:
    return Replay.create(
        ReplayConfig(capacity, storage),
        frame_shape=FRAME_SHAPE,
        action_dim=ACTION_DIM,
        margin=MARGIN,
        directory=directory,
    )


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("written", [0, 1, 25, CAPACITY])
def test_an_extended_run_equals_one_that_was_large_from_the_start(directory: Path, storage: str, written: int) -> None:
    replay = play(make(directory, storage), EVENTS[: written // 2])
    older = replay.sync()
    state = play(replay, EVENTS[written // 2 : written]).sync()
    del replay
    Replay.grow(directory, GROWN)
    assert_same(Replay.open(directory, state=older, read_only=True), play(Reference(GROWN, 3), EVENTS[: written // 2]))
    replay, large = Replay.open(directory, state=state), play(make(None, capacity=GROWN), EVENTS[:written])
    assert replay.layout.capacity == GROWN
    ours, theirs = np.random.default_rng(0), np.random.default_rng(0)
    for event in EVENTS[written:]:
        play(replay, [event])
        play(large, [event])
        if replay.needs_sync:
            replay.sync()
        if len(replay) >= 8:
            batch, expected = replay.sample(8, ours), large.sample(8, theirs)
            assert all(torch.equal(getattr(batch, name), getattr(expected, name)) for name in FIELDS)
    assert_same(replay, play(Reference(GROWN, 3), EVENTS))
    replay.sync()
    assert_same(Replay.open(directory), play(Reference(GROWN, 3), EVENTS))


def test_frames_after_the_last_sync_do_no_harm(directory: Path, storage: str) -> None:
    """A killed run has written into the margin; the rows of its checkpoint are where they were."""
    replay = play(make(directory, storage), EVENTS[:CAPACITY])
    replay.sync()
    play(replay, EVENTS[CAPACITY : CAPACITY + MARGIN])
    del replay
    Replay.grow(directory, GROWN)
    assert_same(Replay.open(directory), play(Reference(GROWN, 3), EVENTS[:CAPACITY]))


class Killed(BaseException):
    pass


@pytest.fixture
def killed_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Die at a step that changes the disk: `killed_at(n)` lets n of them happen."""

    def arm(allowed: int) -> list[int]:
        done: list[int] = []

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def step(*arguments: Any) -> Any:
                if len(done) == allowed:
                    raise Killed
                done.append(1)
                return function(*arguments)

            return step

        monkeypatch.setattr(os, "fsync", counted(lambda handle: None))
        monkeypatch.setattr(os, "replace", counted(replace))
        return done

    replace = os.replace
    return arm


# Two times five files of columns, and two manifests of three steps each: content, name, directory.
STEPS = 16


@pytest.mark.parametrize("allowed", range(STEPS + 1))
def test_killed_at_any_step(
    directory: Path, storage: str, allowed: int, killed_at: Callable[[int], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    play(make(directory, storage), EVENTS[:30]).sync()
    done = killed_at(allowed)
    if allowed == STEPS:
        Replay.grow(directory, GROWN)
        assert len(done) == STEPS, "no step is missed above"
    else:
        with pytest.raises(Killed):
            Replay.grow(directory, GROWN)
    monkeypatch.undo()
    capacity = files.Manifest.load(directory).layout.capacity
    assert capacity == (GROWN if allowed >= STEPS - 1 else CAPACITY)
    copies = [directory.parent / name for name in ("resumed", "again", "other")]
    for copy in copies:
        shutil.copytree(directory, copy)
    # The run goes on with what is there, also past the capacity.
    replay = play(Replay.open(copies[0]), EVENTS[30 : capacity + MARGIN])
    assert_same(replay, play(Reference(capacity, 3), EVENTS[: capacity + MARGIN]))
    replay.sync()
    assert_same(Replay.open(copies[0]), play(Reference(capacity, 3), EVENTS[: capacity + MARGIN]))
    # The same call again, or one with another capacity, completes.
    for copy, wanted in ((copies[1], GROWN), (copies[2], GROWN + 10)):
        Replay.grow(copy, wanted)
        assert files.Manifest.load(copy).growing_to is None
        assert (copy / "age.i32").stat().st_size == 4 * (wanted + MARGIN)
        assert_same(play(Replay.open(copy), EVENTS[30:80]), play(Reference(wanted, 3), EVENTS[:80]))


@pytest.mark.parametrize("allowed", range(STEPS))
def test_killed_twice_with_different_capacities(
    directory: Path, allowed: int, killed_at: Callable[[int], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    play(make(directory), EVENTS[:30]).sync()
    for capacity, steps in ((GROWN, 10), (GROWN - 20, allowed)):
        killed_at(steps)
        with pytest.raises(Killed):
            Replay.grow(directory, capacity)
        monkeypatch.undo()
        assert_same(Replay.open(directory, read_only=True), play(Reference(CAPACITY, 3), EVENTS[:30]))


def test_overwritten_frames_cannot_come_back(directory: Path, storage: str) -> None:
    play(make(directory, storage), EVENTS[: CAPACITY + 1]).sync()
    before = content(directory)
    with pytest.raises(ReplayError, match="cannot grow: 41 frames were written to a capacity of 40, so the oldest"):
        Replay.grow(directory, GROWN)
    assert content(directory) == before


def test_what_cannot_be_is_refused_and_changes_nothing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(make(directory), EVENTS[:30]).sync()
    before = content(directory)
    Replay.grow(directory, CAPACITY - 1)  # it holds as many already
    for wrong in (0, 1e6, True):
        with pytest.raises(ConfigError, match="capacity"):
            Replay.grow(directory, wrong)  # type: ignore[arg-type]
    with pytest.raises(ReplayError, match="contains no replay"):
        Replay.grow(directory.parent, GROWN)
    with monkeypatch.context() as patch:
        patch.setattr("pamd.replay.resources.available_disk", lambda directory: 0)
        with pytest.raises(ResourceError, match="of disk"):
            Replay.grow(directory, 10**6)
    assert content(directory) == before


def test_growing_to_the_same_capacity_changes_nothing(directory: Path) -> None:
    play(make(directory), EVENTS[:30]).sync()
    before = content(directory)
    Replay.grow(directory, CAPACITY)
    assert content(directory) == before
