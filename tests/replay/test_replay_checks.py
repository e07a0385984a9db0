"""A changed byte on disk raises a specific error, and a killed replay can still be opened."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.replay.replay_reference import ACTION_DIM, FRAME_SHAPE, Reference, assert_same, play, random_events

from pamd.errors import ReplayError
from pamd.replay import Replay, ReplayConfig
from pamd.replay import storage as checks
from pamd.replay.layout import STORAGES

CAPACITY, MARGIN, BLOCK = 40, 8, 16
EVENTS = random_events(1, 80)
ROW_BYTES = {"frames.u8": 24, "actions.f32": 4 * ACTION_DIM, "rewards.f32": 4, "terminated.u8": 1, "age.i32": 4}
STEPS = ("actions.f32", "rewards.f32", "terminated.u8")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "BLOCK", BLOCK)
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def make(directory: Path, storage: str) -> Replay:
    shape = {"frame_shape": FRAME_SHAPE, "action_dim": ACTION_DIM}
    return Replay.create(ReplayConfig(CAPACITY, storage), **shape, margin=MARGIN, directory=directory)


def flip(path: Path, row: int, rng: np.random.Generator) -> bytes:
    """Flip one bit of a row; returns the content from before."""
    before = path.read_bytes()
    width = ROW_BYTES[path.name]
    at = row % (CAPACITY + MARGIN) * width + int(rng.integers(width))
    data = bytearray(before)
    data[at] ^= 1 << int(rng.integers(8))
    path.write_bytes(data)
    return before


@pytest.mark.parametrize("file", ROW_BYTES)
@pytest.mark.parametrize("written", [20, 60])
def test_one_flipped_bit_of_the_window_is_named(directory: Path, storage: str, file: str, written: int) -> None:
    state = play(make(directory, storage), EVENTS[:written]).sync()
    rng = np.random.default_rng(0)
    first, stop = max(0, written - CAPACITY), written - (file in STEPS)
    for row in range(first, stop, 3):
        before = flip(directory / file, row, rng)
        block = row - row % BLOCK
        # A wrong age may already be an impossible one.
        says = rf"{file}, frames {max(first, block)} to {min(stop, block + BLOCK) - 1} are not|age|transitions"
        for options in ({"state": state}, {"read_only": True}):
            with pytest.raises(ReplayError, match=says):
                Replay.open(directory, **options)
        (directory / file).write_bytes(before)
    assert_same(Replay.open(directory, state=state), play(Reference(CAPACITY, 3), EVENTS[:written]))


def test_rows_outside_the_window_do_not_count(directory: Path, storage: str) -> None:
    """What a killed run wrote after its checkpoint is no damage; nor is the step from the newest frame."""
    state = play(make(directory, storage), EVENTS[:60]).sync()
    rng = np.random.default_rng(0)
    for file in ROW_BYTES:
        for row in range(60, 60 + MARGIN):
            flip(directory / file, row, rng)
    for file in STEPS:
        flip(directory / file, 59, rng)
    replay = Replay.open(directory, state=state)
    assert_same(replay, play(Reference(CAPACITY, 3), EVENTS[:60]))
    assert_same(play(replay, EVENTS[60:65]), play(Reference(CAPACITY, 3), EVENTS[:65]))


def test_frames_in_another_order_are_damage(directory: Path, storage: str) -> None:
    play(make(directory, storage), EVENTS[:30]).sync()
    rows = np.fromfile(directory / "frames.u8", np.uint8).reshape(-1, 24)
    rows[[3, 4]] = rows[[4, 3]]
    rows.tofile(directory / "frames.u8")
    with pytest.raises(ReplayError, match=r"frames.u8, frames 0 to 15 have changed"):
        Replay.open(directory)


def test_every_damaged_file_is_named_and_many_blocks_are_counted(directory: Path, storage: str) -> None:
    play(make(directory, storage), EVENTS[:40]).sync()
    for file in ("rewards.f32", "frames.u8"):
        data = bytearray((directory / file).read_bytes())
        (directory / file).write_bytes(bytes(byte ^ 1 for byte in data))
    with pytest.raises(ReplayError, match=r"frames.u8, frames 0 to 15; .*frames 32 to 39 and 3 more blocks"):
        Replay.open(directory)
    Replay.open(directory, read_only=True, verify=False)


def test_the_checkpoint_counts_and_not_the_manifest(directory: Path, storage: str) -> None:
    state = play(make(directory, storage), EVENTS[:30]).sync()
    manifest = json.loads((directory / "replay.json").read_text())
    manifest["syncs"][0]["checks"]["frames"] = "0" * 16
    (directory / "replay.json").write_text(json.dumps(manifest))
    with pytest.raises(ReplayError, match=r"frames 0 to 15; .*frames 16 to 29 have changed since they were written"):
        Replay.open(directory, read_only=True)
    assert_same(Replay.open(directory, state=state), play(Reference(CAPACITY, 3), EVENTS[:30]))
    Replay.open(directory, read_only=True)


@pytest.mark.parametrize("file", [*ROW_BYTES, "replay.json"])
def test_links_are_not_followed(directory: Path, storage: str, file: str) -> None:
    state = play(make(directory, storage), EVENTS[:30]).sync()
    elsewhere = directory.parent / "elsewhere"
    (directory / file).rename(elsewhere)
    (directory / file).symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    with pytest.raises(ReplayError, match="symbolic link"):
        Replay.open(directory, state=state)
    assert elsewhere.read_bytes() == before


def test_only_blocks_that_changed_are_hashed_anew(directory: Path, storage: str, monkeypatch: Any) -> None:
    hashed: list[tuple[int, int]] = []
    plain = checks._block_checksum

    def counted(ring: Any, begin: int, end: int) -> str:
        hashed.append((begin, end))
        return plain(ring, begin, end)

    monkeypatch.setattr(checks, "_block_checksum", counted)
    replay = play(make(directory, storage), EVENTS[:36])
    replay.sync()
    hashed.clear()
    play(replay, EVENTS[36:40]).sync()
    assert sorted(set(hashed)) == [(32, 39), (32, 40)], "the last block alone"
    hashed.clear()
    play(replay, EVENTS[40:43]).sync()
    assert sorted(set(hashed)) == [(3, 16), (32, 42), (32, 43)], "and the first, which lost frames"


def test_every_storage_has_the_same_checksums(tmp_path: Path) -> None:
    for stop in (0, 1, 17, 40, 63):
        states = [play(make(tmp_path / f"{storage}-{stop}", storage), EVENTS[:stop]).sync() for storage in STORAGES]
        assert states[0] == states[1]
        blocks = len(range(max(0, stop - CAPACITY) // BLOCK, -(-stop // BLOCK)))
        assert len(states[0]["checks"]["frames"]) == 8 * blocks
