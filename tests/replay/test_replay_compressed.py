"""Compressed frames are lossless and stay within the forecast memory; otherwise an error is raised early."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import pamd
from pamd.cli.main import main
from pamd.errors import ConfigError, ResourceError
from pamd.replay import Replay, ReplayConfig, forecast
from pamd.replay.compressed import PROBED, CompressedFrames
from pamd.replay.layout import CHUNK, Layout
from pamd.training.session import Session

SHAPE = (3, 84, 84)
SMALL = (3, 8, 8)
FRAME_BYTES = int(np.prod(SMALL))


@pytest.fixture(scope="module")
def rendered() -> np.ndarray:
    """[40, 3, 84, 84]: cheetah_run under random actions."""
    env = pamd.make_env("cheetah_run", render="fast")
    rng = np.random.default_rng(0)
    frames = [env.reset()[1]["frame"].copy()]
    while len(frames) < 40:
        action = rng.uniform(-1, 1, env.action_space.shape or ()).astype(np.float32)
        frames.append(env.step(action)[4]["frame"].copy())
    env.close()
    return np.stack(frames)


def noise(count: int, shape: tuple[int, int, int] = SMALL) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, *shape), dtype=np.uint8)


def compressed(frames: np.ndarray, capacity: int) -> CompressedFrames:
    kept = CompressedFrames(Layout(capacity, 0, frames.shape[1:], 1, 1, "compressed"))
    for counter, frame in enumerate(frames):
        kept.write(counter, frame)
    return kept


def filled(storage: str, frames: Sequence[np.ndarray], capacity: int, directory: Path | None = None) -> Replay:
    """One episode of these frames."""
    replay = Replay.create(
        ReplayConfig(capacity, storage),
        frame_shape=frames[0].shape,  # type: ignore[arg-type]
        action_dim=1,
        margin=0 if directory is None else 8,
        directory=directory,
    )
    return follow(replay, frames)


def follow(replay: Replay, frames: Sequence[np.ndarray]) -> Replay:
    for frame in frames:
        if replay.written == 0:
            replay.start(frame)
        else:
            replay.add([replay.written], 0.5, False, frame)
    return replay


def assert_equal(one: Replay, two: Replay) -> None:
    assert one.transitions().tolist() == two.transitions().tolist()
    batch, same = one.take(one.transitions()), two.take(two.transitions())
    assert all(
        torch.equal(getattr(batch, name), getattr(same, name))
        for name in ("obs", "action", "reward", "next_obs", "not_done")
    )


def test_rendered_frames_come_back_and_are_three_times_smaller(rendered: np.ndarray, directory: Path) -> None:
    replay = filled("compressed", rendered, 37, directory)
    assert_equal(replay, filled("memory", rendered, 37))
    replay.sync()
    assert_equal(Replay.open(directory), replay)
    kept = compressed(rendered, 40)
    assert rendered.nbytes / kept.bytes_held > 3


def test_noise_is_kept_as_it_is() -> None:
    frames = noise(40, SHAPE)
    kept = compressed(frames, 40)
    assert kept.bytes_held == frames.nbytes, "not a byte more"
    out = np.empty_like(frames)
    kept.gather(np.arange(40), out)
    np.testing.assert_array_equal(out, frames)


@pytest.mark.parametrize("capacity", range(2, 14))
def test_the_ring_goes_round_in_the_middle_of_a_chunk(capacity: int) -> None:
    """Chunks of very different sizes, so that they never lie where the last ones did."""
    frames = noise(120)
    frames[np.random.default_rng(1).random(120) < 0.5] = 7
    kept = compressed(frames[:0], capacity)
    for counter, frame in enumerate(frames):
        kept.write(counter, frame)
        window = np.arange(max(0, counter + 1 - capacity), counter + 1)
        out = np.empty((len(window), *SMALL), np.uint8)
        kept.gather(window, out)
        np.testing.assert_array_equal(out, frames[window])


def test_the_newest_frames_are_sampled_before_their_chunk_is_complete() -> None:
    frames = noise(CHUNK + 2)
    replay = filled("compressed", frames, 20)
    batch = replay.take(replay.transitions()[-1:])
    np.testing.assert_array_equal(batch.next_obs.numpy()[0, -3:], frames[-1])


@pytest.fixture
def no_small_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if 256 MB were nothing."""
    monkeypatch.setattr("pamd.replay.layout.SMALL", 0)


@pytest.mark.usefixtures("no_small_replays")
def test_what_does_not_shrink_is_refused_early_and_nothing_is_lost(directory: Path) -> None:
    probed, capacity = CHUNK * PROBED, 10 * CHUNK * PROBED
    frames = noise(probed)
    replay = filled("compressed", frames[:-1], capacity, directory)
    for _ in range(2):
        with pytest.raises(ResourceError, match=r"1\.00 times smaller, but 3\.00 times was assumed.*storage 'mmap'"):
            follow(replay, frames[-1:])
    assert_equal(replay, filled("memory", frames[:-1], capacity))
    replay.sync()
    # The way out that the error names.
    mapped = follow(Replay.open(directory, storage="mmap"), frames[-1:])
    assert_equal(mapped, filled("memory", frames, capacity))


@pytest.mark.usefixtures("no_small_replays")
def test_what_no_longer_shrinks_is_refused_at_the_forecast() -> None:
    """The first frames are plain, the later ones are not: the memory that was set aside is all that is taken."""
    capacity = 3 * CHUNK * PROBED
    frames = np.zeros((capacity, *SMALL), np.uint8)
    frames[CHUNK * PROBED :] = noise(capacity - CHUNK * PROBED)
    replay = Replay.create(ReplayConfig(capacity, "compressed"), frame_shape=SMALL, action_dim=1)
    with pytest.raises(ResourceError, match="do not fit into the"):
        follow(replay, frames)
    raw = (replay.written - CHUNK * PROBED) * FRAME_BYTES
    assert raw < forecast(ReplayConfig(capacity, "compressed"), SMALL, 1, 0).bytes_memory
    assert raw > capacity * FRAME_BYTES / 4, "the room was used"
    assert_equal(replay, filled("memory", frames[: replay.written], capacity))


@pytest.mark.usefixtures("no_small_replays")
def test_the_forecast_says_what_it_assumes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pamd.replay.resources.available_memory", lambda: 1000)
    with pytest.raises(ResourceError, match=r"if frames become 3\.0 times smaller"):
        Replay.create(ReplayConfig(1000, "compressed"), frame_shape=SMALL, action_dim=1)


def test_without_zstandard_nothing_is_made(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ConfigError, match="requires zstandard: pip install"):
        filled("compressed", noise(1), 20, directory)
    assert not directory.parent.exists()
    filled("memory", noise(1), 20, directory)


class Killed(BaseException):
    pass


def test_a_run_is_killed_and_resumed_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with the weights and logs of one that kept its frames in memory and was never interrupted."""
    words = ["train", "toy", "--method", "sac", "--scale", "smoke", "--decisions", "60", "--capacity", "26"]
    words += ["--checkpoint-every", "10", "--threads", "1", "--no-tensorboard", "--device", "cpu", "--video", "off"]
    words += ["--set", "learner.random_decisions=20", "env.time_limit=9", "--runs"]
    assert main([*words, str(tmp_path / "memory"), "--storage", "memory"]) == 0
    begin_episode, begun = Session.begin_episode, []

    def deadly(session: Session) -> None:
        begun.append(session)
        if len(begun) == 5:
            raise Killed
        begin_episode(session)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "begin_episode", deadly)
        with pytest.raises(Killed):
            main([*words, str(tmp_path / "compressed"), "--storage", "compressed"])
    (straight,), (run,) = ((tmp_path / name).iterdir() for name in ("memory", "compressed"))
    assert main(["resume", str(run)]) == 0
    for name in ("train.jsonl", "eval.jsonl", "checkpoints/000000060/tensors.safetensors"):
        assert (run / name).read_bytes() == (straight / name).read_bytes(), name
