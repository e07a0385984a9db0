"""Write videos of episodes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pamd import atomic_io
from pamd.errors import ResourceError

__all__ = ["write_video"]


def write_video(path: Path, frames: list[NDArray[np.uint8]], rate: int) -> None:
    """Encode RGB frames [H, W, 3] as H.264. The file is written atomically."""
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.mp4")
    height, width = frames[0].shape[:2]
    try:
        # Use a temporary file: opening the path directly would follow a link.
        with atomic_io.open_file(temporary, "wb") as file, av.open(file, "w", format="mp4") as container:
            stream = container.add_stream("libx264", rate=rate)
            # H.264 requires an even width and height. If one is odd, the last column or row is dropped.
            stream.width, stream.height, stream.pix_fmt = width // 2 * 2, height // 2 * 2, "yuv420p"
            # On some processors, fast paths of the encoder read memory that nothing wrote. Then equal frames differ.
            stream.options = {"x264-params": "cpu-independent=1"}
            for image in frames:
                picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(image[: stream.height, : stream.width]))
                container.mux(stream.encode(picture))
            container.mux(stream.encode())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ResourceError(f"cannot write the video {path}: {error}") from None
