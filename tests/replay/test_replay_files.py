"""Damaged or unexpected files are refused with specific errors."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.replay.replay_reference import ACTION_DIM, FRAME_SHAPE, Reference, assert_same, play, random_events

from pamd.errors import ConfigError, PamdError, ReplayError, ResourceError, UnknownNameError
from pamd.replay import Replay, ReplayConfig
from pamd.replay.layout import STORAGES

EVENTS = random_events(1, 60)


def make(directory: Path, storage: str = "mmap", **options: Any) -> Replay:
    return Replay.create(
        ReplayConfig(40, storage),
        frame_shape=FRAME_SHAPE,
        action_dim=ACTION_DIM,
        margin=8,
        directory=directory,
        **options,
    )


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Change what `replay.json` says."""

    def apply(directory: Path) -> None:
        path = directory / "replay.json"
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data))

    return apply


def resized(name: str, by: int) -> Callable[[Path], None]:
    return lambda directory: os.truncate(directory / name, (directory / name).stat().st_size + by)


def aged(slot: int, age: int) -> Callable[[Path], None]:
    def apply(directory: Path) -> None:
        ages = np.fromfile(directory / "age.i32", "<i4")
        ages[slot] = age
        ages.tofile(directory / "age.i32")

    return apply


# 60 frames in a ring of 48: frame 50 is in slot 2.
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda d: (d / "replay.json").unlink(), "replay.json is missing"),
        (lambda d: (d / "frames.u8").unlink(), "frames.u8 is missing"),
        (lambda d: (d / "age.i32").unlink(), "age.i32 is missing"),
        (resized("frames.u8", -1), r"frames.u8 has 1151 bytes; 48 rows of 24 make 1152"),
        (resized("frames.u8", 24), r"frames.u8 has 1176 bytes"),
        (resized("actions.f32", -8), r"actions.f32 has 376 bytes; 48 rows of 8 make 384"),
        (resized("rewards.f32", -192), r"rewards.f32 has 0 bytes"),
        (resized("terminated.u8", 1), r"terminated.u8 has 49 bytes"),
        (lambda d: (d / "replay.json").write_text("{"), "not valid JSON"),
        (lambda d: (d / "replay.json").write_bytes(b"\xff\xfe\x00"), "not valid JSON"),
        (lambda d: (d / "replay.json").write_text("[]"), "version None"),
        (edited(lambda data: data.update(version=1)), "version 1; this package reads version 2"),
        (edited(lambda data: data.pop("version")), "version None"),
        (edited(lambda data: data.pop("layout")), "layout"),
        (edited(lambda data: data.update(extra=1)), "'extra'"),
        (edited(lambda data: data["layout"].update(frame_shape=[])), "frame_shape"),
        (edited(lambda data: data["layout"].update(frame_shape=[2, 3])), "frames.u8 has 1152 bytes; .* make 288"),
        (edited(lambda data: data["layout"].update(dtype="float64")), "'float64'"),
        (edited(lambda data: data["layout"].update(frame_shape=[2, 3, 5])), "frames.u8 has 1152 bytes; .* make 1440"),
        (edited(lambda data: data["layout"].update(capacity="40")), "capacity"),
        (edited(lambda data: data["layout"].update(storage="tape")), "'tape'"),
        (edited(lambda data: data["layout"].update(action_dim=3)), "actions.f32 has 384 bytes; .* make 576"),
        (edited(lambda data: data["syncs"][0].update(transitions=5)), "hold .* transitions, but 5 were saved"),
        (edited(lambda data: data["syncs"][0].update(written=-1)), r"written must be .* at least 0, got -1"),
        (edited(lambda data: data["syncs"].append(data["syncs"][0])), r"at most three, .* got \[60, 60\]"),
        (aged(2, 77), "frame 50 of the replay has age 77"),
        (aged(2, -1), "frame 50 of the replay has age -1"),
    ],
)
def test_damage_is_named(directory: Path, storage: str, damage: Callable[[Path], None], says: str) -> None:
    play(make(directory, storage), EVENTS).sync()
    damage(directory)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(ReplayError, match=says):
        Replay.open(directory)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_ages_that_cannot_be_are_seen_without_wrap_around(directory: Path) -> None:
    play(make(directory), EVENTS[:20]).sync()
    aged(0, 3)(directory)
    with pytest.raises(ReplayError, match="frame 0 of the replay has age 3 after none"):
        Replay.open(directory)


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (
            {"written": 59, "transitions": 1, "checks": {}},
            r"belongs to 59 written frames \(1 .* holds the syncs 60 \(",
        ),
        ({"written": 60, "transitions": 1, "checks": {}}, "belongs to 60 written frames"),
        ({"written": 60, "checks": {}}, "transitions"),
        ({"written": 60, "transitions": 1}, "checks"),
        ({"written": 60, "transitions": 1, "checks": {"frames": 3}}, "checks.frames"),
        ({"written": "60", "transitions": 1}, "written"),
        ({"written": 60, "transitions": 1, "head": 3}, "'head'"),
        ({"written": 1, "transitions": 2, "checks": {}}, "transitions 2 and written 1"),
        ({"written": np.zeros(3), "transitions": 2}, "plain data"),
    ],
)
def test_a_state_of_another_replay(directory: Path, state: dict[str, Any], says: str) -> None:
    play(make(directory), EVENTS).sync()
    with pytest.raises(ReplayError, match=says):
        Replay.open(directory, state=state)


def test_an_existing_replay_is_not_overwritten_by_chance(directory: Path, storage: str) -> None:
    play(make(directory, storage), EVENTS).sync()
    with pytest.raises(ReplayError, match="already contains a replay"):
        make(directory, storage)
    assert_same(Replay.open(directory, read_only=True), play(Reference(40, 3), EVENTS))
    replay = make(directory, storage, overwrite=True)
    assert len(replay) == replay.written == 0
    assert Replay.open(directory, read_only=True).written == 0
    assert not any((directory / "frames.u8").read_bytes())


def test_files_without_a_manifest_are_no_replay(directory: Path, storage: str) -> None:
    """A run that was killed while it made them begins anew."""
    make(directory, storage)
    (directory / "replay.json").unlink()
    assert len(make(directory, storage)) == 0


def test_only_the_files_that_are_promised(directory: Path, storage: str) -> None:
    replay = play(make(directory, storage), EVENTS)
    replay.sync()
    names = {"frames.u8", "actions.f32", "rewards.f32", "terminated.u8", "age.i32", "replay.json"}
    assert {path.name for path in directory.iterdir()} == names
    assert json.loads((directory / "replay.json").read_text())["version"] == 2
    assert all(b"pickle" not in path.read_bytes() for path in directory.iterdir())


def test_every_storage_writes_the_same_bytes(tmp_path: Path) -> None:
    for storage in STORAGES:
        replay = make(tmp_path / storage, storage)
        for first, stop in ((0, 38), (38, 44), (44, 48), (48, 52)):
            play(replay, EVENTS[first:stop]).sync()
    for name in ("frames.u8", "actions.f32", "rewards.f32", "terminated.u8", "age.i32"):
        assert len({(tmp_path / storage / name).read_bytes() for storage in STORAGES}) == 1, name


def test_a_million_frames_take_no_disk_before_they_are_written(directory: Path) -> None:
    # More than this disk may have free: the check is for those who mean to fill it.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pamd.replay.resources.available_disk", lambda directory: 10**12)
        replay = Replay.create(
            ReplayConfig(1_000_000, "mmap"), frame_shape=(3, 84, 84), action_dim=6, margin=20_000, directory=directory
        )
    assert (directory / "frames.u8").stat().st_size == 1_020_000 * 21_168
    assert sum(path.stat().st_blocks * 512 for path in directory.iterdir()) < 100_000
    replay.start(np.full((3, 84, 84), 7, np.uint8))
    replay.add(np.zeros(6), 1.0, False, np.full((3, 84, 84), 9, np.uint8))
    assert replay.take(replay.transitions()).next_obs.flatten()[-1] == 9


def test_a_full_disk_is_an_error_and_changes_nothing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replay = play(make(directory), EVENTS[:50])

    def full(*arguments: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(ResourceError, match="No space left"):
            play(replay, EVENTS[50:51])
    assert_same(replay, play(Reference(40, 3), EVENTS[:50]))
    assert_same(play(replay, EVENTS[50:]), play(Reference(40, 3), EVENTS))


def test_a_short_write_is_completed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, data, offset: pwrite(handle, data[:5], offset))
    assert_same(play(make(directory), EVENTS), play(Reference(40, 3), EVENTS))


def test_a_batch_is_asked_for_before_it_is_read(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All its frames and no others, also where a stack goes past the end of the ring."""
    replay, row = play(make(directory), EVENTS), int(np.prod(FRAME_SHAPE))
    asked: set[int] = set()

    def hint(handle: int, offset: int, length: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_WILLNEED
        assert offset % row == length % row == 0
        asked.update(range(offset // row, (offset + length) // row))

    monkeypatch.setattr(os, "posix_fadvise", hint)
    wrapped = 0
    for transition in replay.transitions():
        asked.clear()
        replay.take(transition[None])
        counters = replay._ring.frames_of(transition[None]).ravel()
        slots = set((counters % 48).tolist())
        wrapped += {47, 0} <= slots
        assert {slot for slot in asked if slot < 48} == slots
    assert wrapped


@pytest.mark.parametrize("without", [True, False])
def test_a_file_system_that_takes_no_hints(without: bool, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    if without:
        monkeypatch.delattr(os, "posix_fadvise")
    else:
        monkeypatch.setattr(os, "posix_fadvise", refuse)
    assert_same(play(make(directory), EVENTS), play(Reference(40, 3), EVENTS))


def test_a_directory_that_is_gone(directory: Path, storage: str) -> None:
    replay = play(make(directory, storage), EVENTS)
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
    with pytest.raises(ReplayError, match="cannot be read or written"):
        replay.sync()


@pytest.mark.parametrize("place", ["a file", "below a file"])
def test_no_directory_can_be_made(tmp_path: Path, place: str) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(PamdError, match="cannot be read or written"):
        make(path if place == "a file" else path / "replay")


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"capacity": 3}, ConfigError, "capacity 3 .* at least 4"),
        ({"capacity": 0}, ConfigError, "capacity"),
        ({"capacity": 1e6}, ConfigError, "whole number"),
        ({"storage": "mmaped"}, UnknownNameError, "'mmap'"),
        ({"storage": "mmap"}, ConfigError, "requires a directory"),
        ({"frame_shape": ()}, ConfigError, r"such as \(C, H, W\) or \(n,\), got \(\)"),
        ({"frame_shape": 84}, ConfigError, "got 84"),
        ({"frame_shape": [3, 84, 84]}, ConfigError, "tuple"),
        ({"frame_shape": (3, 0, 84)}, ConfigError, "frame_shape.1 must be .*, got 0"),
        ({"frame_shape": (3, 84, 84.0)}, ConfigError, "frame_shape.2 must be .*, got 84.0"),
        ({"dtype": "float64"}, UnknownNameError, "'float32'"),
        ({"action_dim": 0}, ConfigError, "action_dim"),
        ({"frame_stack": 0}, ConfigError, "frame_stack"),
        ({"margin": -1}, ConfigError, "margin"),
        ({"margin": 3, "directory": "replay"}, ConfigError, "margin must be at least 4, got 3"),
    ],
)
def test_options_that_make_no_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], error: type[PamdError], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"capacity": 40, "storage": "memory", "frame_shape": (3, 84, 84), "action_dim": 1, **options}
    with pytest.raises(error, match=says):
        Replay.create(ReplayConfig(given.pop("capacity"), given.pop("storage")), **given)
    assert not list(tmp_path.iterdir())


def test_another_storage_of_no_kind(directory: Path) -> None:
    make(directory)
    with pytest.raises(UnknownNameError, match="'memory'"):
        Replay.open(directory, storage="memry")
