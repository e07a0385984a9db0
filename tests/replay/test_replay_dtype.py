"""Frames of any shape, as bytes or as floats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.replay.replay_reference import ACTION_DIM, FRAME_SHAPE, Event, Reference, assert_same, play, random_events

from pamd.errors import DtypeError, ReplayError
from pamd.replay import Replay, ReplayConfig, forecast


def make(shape: tuple[int, ...], dtype: str, storage: str = "memory", directory: Path | None = None) -> Replay:
    return Replay.create(
        ReplayConfig(40, storage),
        frame_shape=shape,
        action_dim=ACTION_DIM,
        dtype=dtype,
        margin=20 if directory else 0,
        directory=directory,
    )


def reshaped(count: int, shape: tuple[int, ...], dtype: str) -> list[Event]:
    """Random episodes with frames of another shape and type."""
    rng = np.random.default_rng(2)

    def frame() -> np.ndarray:
        return (255 * rng.random(shape)).astype(dtype) if dtype == "uint8" else rng.normal(size=shape).astype(dtype)

    return [Event(frame(), item.action, item.reward, item.terminated) for item in random_events(1, count)]


KINDS = [
    ((17,), "float32", "memory"),
    ((17,), "float32", "mmap"),
    ((2, 3, 4), "float32", "mmap"),
    ((1,), "uint8", "memory"),
    ((5, 6), "uint8", "mmap"),
]


@pytest.mark.parametrize(("shape", "dtype", "storage"), KINDS)
def test_any_observation_is_stacked_saved_and_resumed(
    directory: Path, shape: tuple[int, ...], dtype: str, storage: str
) -> None:
    events = reshaped(100, shape, dtype)
    replay = play(make(shape, dtype, storage, directory), events[:70])
    reference = play(Reference(40, 3), events[:70])
    assert_same(replay, reference)
    batch = replay.take(replay.transitions(), n_step=3, gamma=0.9)
    assert batch.obs.dtype == batch.next_obs.dtype == getattr(torch, dtype)
    assert batch.obs.shape == (len(replay), 3 * shape[0], *shape[1:])
    assert batch.n_step is not None
    assert batch.n_step.next_obs.dtype == batch.obs.dtype
    state = replay.sync()
    del replay
    resumed = Replay.open(directory, state=state)
    assert_same(resumed, reference)
    assert_same(play(resumed, events[70:75]), play(reference, events[70:75]))


def test_the_type_is_in_the_manifest_and_in_the_name_of_the_file(directory: Path) -> None:
    make((17,), "float32", directory=directory)
    assert json.loads((directory / "replay.json").read_text())["layout"]["dtype"] == "float32"
    assert (directory / "frames.f32").stat().st_size == 60 * 17 * 4
    assert not (directory / "frames.u8").exists()


def test_another_type_replaces_the_old_file(directory: Path) -> None:
    make((17,), "float32", directory=directory)
    options: dict[str, Any] = {"frame_shape": (17,), "action_dim": 2, "margin": 4, "directory": directory}
    Replay.create(ReplayConfig(40), **options, overwrite=True)
    assert sorted(path.name for path in directory.glob("frames.*")) == ["frames.u8"]


def test_a_replay_without_a_type_is_of_bytes(directory: Path, storage: str) -> None:
    """As replays were written before there was a choice."""
    events = random_events(1, 60)
    play(make(FRAME_SHAPE, "uint8", storage, directory), events).sync()
    path = directory / "replay.json"
    data = json.loads(path.read_text())
    del data["layout"]["dtype"], data["growing_to"]
    path.write_text(json.dumps(data))
    replay = Replay.open(directory)
    assert replay.layout.dtype == "uint8"
    assert_same(replay, play(Reference(40, 3), events))


def test_a_frame_of_another_type_or_not_finite_is_refused() -> None:
    replay = make((3,), "float32")
    with pytest.raises(DtypeError, match="float32, got float64"):
        replay.start(np.zeros(3))
    with pytest.raises(DtypeError, match="float32, got uint8"):
        replay.start(np.zeros(3, np.uint8))
    for wrong in (np.nan, np.inf):
        with pytest.raises(ReplayError, match="a frame must be finite"):
            replay.start(np.array([0.0, wrong, 0.0], np.float32))
    assert replay.written == 0


def test_the_forecast_counts_floats() -> None:
    config = ReplayConfig(1000)
    small, large = (forecast(config, (17,), 6, 0, dtype).bytes_memory for dtype in ("uint8", "float32"))
    assert large - small == 1000 * 17 * 3
