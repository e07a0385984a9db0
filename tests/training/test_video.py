"""Equal frames become equal bytes, so that the video of a resumed run is that of an uninterrupted one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ENCODE = """
import sys
from pathlib import Path

import numpy as np

from pamd.training.evaluate import write_video

frames = []
for i in range(40):
    frame = np.full((240, 240, 3), (30, 60, 90), np.uint8)
    frame[20 + 3 * i : 60 + 3 * i, 40 + 2 * i : 80 + 2 * i] = (200, 40, 40)
    frames.append(frame)
write_video(Path(sys.argv[1]), frames, 10)
"""


def test_a_video_does_not_depend_on_what_memory_held_before(tmp_path: Path) -> None:
    videos = []
    for value in ("1", "85"):  # glibc fills memory with a value that depends on this number.
        path = tmp_path / f"{value}.mp4"
        subprocess.run([sys.executable, "-c", ENCODE, path], env={**os.environ, "MALLOC_PERTURB_": value}, check=True)
        videos.append(path.read_bytes())
    assert videos[0] == videos[1]
