"""Small real video files."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np


def color_of(seed: int) -> np.ndarray:
    """The color behind the square of clip `seed`."""
    return np.random.default_rng(seed).integers(0, 255, 3)


def which_clip(frame: np.ndarray, count: int) -> int:
    """Which of the clips 0 to count - 1 is behind `frame` [3, H, W], by its corner."""
    return int(np.argmin([np.abs(frame[:, 0, 0] - color_of(seed)).sum() for seed in range(count)]))


def write_clip(path: Path, seed: int, count: int = 12, width: int = 48, height: int = 36) -> Path:
    """`count` frames of a bright square that moves over a color; which ones, `seed` says."""
    color, spot = color_of(seed), 255 - color_of(seed)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(count):
            picture = np.broadcast_to(color, (height, width, 3)).astype(np.uint8)
            left = (2 * number + seed) % (width - 12)
            picture[8:20, left : left + 12] = spot
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode())
    return path


def write_clips(directory: Path, count: int) -> Path:
    """A folder of `count` different clips."""
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        write_clip(directory / f"clip{number}.mp4", number)
    return directory
