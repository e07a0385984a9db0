"""The cache of decoded clips. Each clip is one file of raw frames, which all processes memory-map."""

from __future__ import annotations

import functools
import hashlib
import io
import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pamd import atomic_io
from pamd.envs.distractors.clips import Clip
from pamd.errors import ResourceError

_LIMIT_BYTES = 8_000_000_000
"""The maximum size of the decoded clips of one environment. Lower `frames` or `*_clips` to stay below it."""


def cache_directory() -> Path:
    """Return the folder of decoded clips in the user's cache. It may be deleted at any time."""
    return atomic_io.user_cache() / "clips"


def cache_path(content: str, size: int, limit: int) -> Path:
    """Return the path of the file with a clip's first `limit` frames, each [size, size, 3].

    `content` is the SHA-256 of the clip's content, so a changed clip has a new file.
    """
    return cache_directory() / f"{content[:40]}-{size}-{limit}.npy"


def forecast(count: int, size: int, limit: int) -> int:
    """Return the maximum size in bytes of `count` clips of `limit` frames, on disk and in mapped memory."""
    header = 128  # bytes of a .npy file before its array
    return count * (header + limit * size * size * 3)


def check_room(count: int, size: int, limit: int) -> None:
    """Raise ResourceError if the forecast exceeds the limit or the free disk space."""
    needed = forecast(count, size, limit)
    advice = "choose fewer (train_clips, unseen_clips) or shorter ones (frames)"
    if needed > _LIMIT_BYTES:
        raise ResourceError(
            f"{count} clips of {limit} frames at {size}x{size} take up to {needed / 1e9:.1f} GB decoded,"
            f" and the limit is {_LIMIT_BYTES / 1e9:.0f} GB: {advice}"
        )
    directory = cache_directory()
    # The cache may not exist yet. Its nearest existing parent is on the same disk.
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise ResourceError(
            f"{count} clips take up to {needed / 1e6:.0f} MB decoded, and {directory} has room for"
            f" {free / 1e6:.0f} MB: {advice}, or set PAMD_CACHE to another disk"
        )


def store(clip: Clip, content: str, size: int, limit: int) -> Path:
    """Decode a clip into its file and return the path.

    The file is written atomically, even if two processes write it at the same time.
    """
    path = cache_path(content, size, limit)
    frames = list(clip.frames(size, limit))  # Nothing is written before all frames are decoded.
    buffer = io.BytesIO()
    np.save(buffer, np.stack(frames))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_io.replace(path, buffer.getvalue())
    except OSError as error:
        raise ResourceError(
            f"cannot write decoded clips in {path.parent}: {error}; set PAMD_CACHE to another folder"
        ) from None
    return path


def digest(path: Path) -> str | None:
    """Return the SHA-256 of a file of frames, or None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return _cached_digest(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=1024)
def _cached_digest(path: Path, modified: int, size: int) -> str:
    """Return the SHA-256 of a file. The other arguments are only keys of the cache: a changed file is read again."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_frames(path: Path) -> NDArray[np.uint8]:
    """Memory-map the frames [N, size, size, 3], so that all processes share them."""
    frames: NDArray[np.uint8] = np.load(path, mmap_mode="r")
    return frames.view(np.ndarray)  # Indexing a plain array is faster than indexing an np.memmap.
