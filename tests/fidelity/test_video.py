"""The released video: gray frames, squashed without antialiasing; a random first frame; clips repeat up to 1000."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.fidelity.difference import report

from pamd.envs.distractors import DistractorConfig, distractor
from pamd.envs.distractors.clips import Video
from pamd.envs.distractors.scenery import Scenery
from pamd.envs.distractors.split import find_clips
from pamd.errors import ConfigError

Picture = NDArray[np.uint8]


def write_lossless(path: Path, pictures: list[Picture]) -> Path:
    """A video whose decoded frames are exactly `pictures` [H, W, 3]."""
    height, width, _ = pictures[0].shape
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = width, height, "bgr0"
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format="bgr0")))
        container.mux(stream.encode())
    return path


def bilinear(picture: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Each pixel between its four neighbors [H, W], by the formula. Pixel i has its center at i + 1/2."""
    height, width = picture.shape
    out = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            y = min(max((i + 0.5) * height / size - 0.5, 0), height - 1)
            x = min(max((j + 0.5) * width / size - 0.5, 0), width - 1)
            below, after = min(int(y) + 1, height - 1), min(int(x) + 1, width - 1)
            top = picture[int(y), int(x)] * (1 - x % 1) + picture[int(y), after] * (x % 1)
            bottom = picture[below, int(x)] * (1 - x % 1) + picture[below, after] * (x % 1)
            out[i, j] = top * (1 - y % 1) + bottom * (y % 1)
    return out


@pytest.mark.parametrize(("height", "width"), [(30, 46), (9, 12), (12, 12)])
def test_a_squashed_frame_is_gray_first_and_then_bilinear(tmp_path: Path, height: int, width: int) -> None:
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (height, width, 3), np.uint8) for _ in range(2)]
    write_lossless(tmp_path / "noise.mkv", pictures)
    config = distractor("released-video", videos=str(tmp_path))
    (clip,) = find_clips(config)
    found = np.stack(list(clip.frames(12, 1000))).astype(np.float64)
    gray = [np.rint(picture @ np.array([0.299, 0.587, 0.114])) for picture in pictures]
    formula = np.stack([bilinear(one, 12) for one in gray])[..., None].repeat(3, -1)
    difference = float(np.abs(found - formula).max())
    report("video", difference)
    assert difference <= 0.5 + 1e-9, "a pixel is rounded to a level"


def test_color_is_scaled_in_the_same_way(tmp_path: Path) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (30, 46, 3), np.uint8)
    clip = Video(write_lossless(tmp_path / "noise.mkv", [picture] * 2), "squash")
    formula = np.stack([bilinear(picture[..., channel].astype(np.float64), 12) for channel in range(3)], -1)
    assert np.abs(next(clip.frames(12, 2)) - formula).max() <= 0.5 + 1e-9


def test_the_fit_is_part_of_a_clips_content(tmp_path: Path) -> None:
    path = write_lossless(tmp_path / "flat.mkv", [np.full((24, 48, 3), 9, np.uint8)] * 2)
    assert Video(path, "squash").content() != Video(path).content()
    assert Video(path, "squash", gray=True).content() != Video(path, "squash").content()
    assert Video(path, "squash").rank() == Video(path).rank()


def numbered(lengths: list[int]) -> list[Picture]:
    """Clips of 1 x 1 pixel whose red and green channels count all frames."""
    numbers = np.arange(sum(lengths))
    frames = np.stack([numbers // 256, numbers % 256, 0 * numbers], -1).astype(np.uint8)[:, None, None]
    return np.split(frames, np.cumsum(lengths)[:-1])


@pytest.mark.parametrize("start", ["first", "random"])
def test_the_order_of_the_videos_frames(start: str) -> None:
    lengths, decisions, run_seed = [170, 230], 250, 3
    preset = distractor("released-video")
    options = {"sequence": preset.sequence, "frames": preset.frames, "start": start}
    scenery = Scenery(DistractorConfig(**options), numbered(lengths), 1, decisions)
    first = 0 if start == "first" else int(np.random.default_rng([run_seed, 0xBACD]).integers(1000))
    assert (start == "random") == (first > 0)
    found, formula = [], []
    for episode in range(8):
        scenery.begin(seed=episode + 77, episode=episode, run_seed=run_seed)
        for time in range(decisions + 1):
            red, green, _ = scenery.frame(time, 1)[0, 0].tolist()
            found.append(256 * red + green)
            # The 1000 frames are two and a half times the 400 of the clips: frame 1000 is the first again.
            formula.append((first + len(formula)) % 1000 % sum(lengths))
    difference = float(np.abs(np.subtract(found, formula)).max())
    report("video", difference)
    assert difference == 0


def test_runs_start_at_different_frames() -> None:
    options = {"sequence": "continuous", "frames": 1000, "start": "random"}
    scenery = Scenery(DistractorConfig(**options), numbered([1000]), 1, 250)
    seen = set()
    for run_seed in range(20):
        scenery.begin(seed=0, episode=0, run_seed=run_seed)
        seen.add(tuple(scenery.frame(0, 1)[0, 0].tolist()))
    assert len(seen) > 15


def test_the_presets() -> None:
    released, paper = distractor("released-video"), distractor("paper-video")
    assert (released.fit, released.start, released.frames, released.sequence) == (
        "squash",
        "random",
        1000,
        "continuous",
    )
    assert (paper.fit, paper.start, paper.sequence) == ("crop", "first", "episode")


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match="start=random requires sequence=continuous"):
        DistractorConfig(start="random")
    with pytest.raises(ConfigError, match="'squash'"):
        DistractorConfig(fit="squahs")  # type: ignore[arg-type]
