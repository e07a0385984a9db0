"""Frames in memory, compressed with zstd in small chunks of consecutive frames. Useful for plain backgrounds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

from pamd.errors import ConfigError, ResourceError
from pamd.replay import files
from pamd.replay.frames import Frame, Frames
from pamd.replay.layout import CHUNK, Layout
from pamd.replay.ring import Counters

__all__ = ["PROBED", "CompressedFrames", "zstd"]

LEVEL = 3

# After this many chunks (1024 frames) the assumed compression ratio is checked. A run with a video background then
# fails in its first minutes instead of after hours.
PROBED = 256


class CompressedFrames(Frames):
    """Compressed chunks of frames. Chunk `k` has frames `k * CHUNK` to `(k + 1) * CHUNK`, regardless of episodes.

    The chunks are consecutive in one block of memory of the forecast size, and the newest replaces the oldest. If the
    chunks are larger than assumed, they do not fit, and an error is raised.
    """

    def __init__(self, layout: Layout) -> None:
        codec = zstd()
        self._compress = codec.ZstdCompressor(level=LEVEL).compress
        self._decompress = codec.ZstdDecompressor().decompress
        self._layout = layout
        self._memory = np.empty(layout.chunk_memory, np.uint8)
        self._place = np.zeros((layout.chunks, 2), np.int64)
        """[chunks, 2]: row `k % chunks` has the begin and end of chunk `k` as increasing offsets. An offset modulo the
        size of the memory is a position in it. The next chunk may begin at the end of the newest."""
        self._end = 0
        self._newest = np.zeros((CHUNK, *layout.frame_shape), np.uint8)
        """[CHUNK, *frame_shape]: the chunk that is not yet complete."""
        self._complete = 0
        """All chunks before this one are compressed."""

    @property
    def bytes_held(self) -> int:
        """The current size of all compressed chunks in bytes."""
        return int((self._place[:, 1] - self._place[:, 0]).sum())

    def write(self, counter: int, frame: Frame) -> None:
        self._newest[counter % CHUNK] = frame
        chunk, last = divmod(counter, CHUNK)
        if last == CHUNK - 1:
            self._keep(chunk)
            if chunk == PROBED - 1:
                self._check_assumption()

    def gather(self, counters: Counters, out: Frame) -> None:
        flat, rows = counters.reshape(-1), out.reshape(-1, *self._layout.frame_shape)
        order = np.argsort(flat, kind="stable")
        chunks, firsts = np.unique(flat[order] // CHUNK, return_index=True)
        for chunk, wanted in zip(chunks.tolist(), np.split(order, firsts[1:]), strict=True):
            # Copy one chunk at a time, so that it is copied while it is still in the CPU cache.
            rows[wanted] = self._chunk(chunk)[flat[wanted] % CHUNK]

    def save(self, directory: Path, first: int, stop: int) -> None:
        runs = files.split_at(first, stop, CHUNK)
        pieces = (files.Piece(self._chunk(begin // CHUNK), begin, end) for begin, end in runs)
        files.write(directory, self._layout.columns["frames"], pieces, self._layout.slots)

    def load(self, directory: Path, first: int, stop: int) -> None:
        self._complete = first // CHUNK
        files.read(directory, self._layout.columns["frames"], self._filled_and_kept(first, stop), self._layout.slots)

    def _filled_and_kept(self, first: int, stop: int) -> Iterator[files.Piece]:
        for begin, end in files.split_at(first, stop, CHUNK):
            yield files.Piece(self._newest, begin, end)
            # The caller has filled the chunk at this point.
            if end % CHUNK == 0:
                self._keep(begin // CHUNK)

    def _chunk(self, chunk: int) -> Frame:
        """Return the frames [CHUNK, *frame_shape] of the chunk."""
        if chunk == self._complete:
            return self._newest
        begin, end = self._place[chunk % len(self._place)].tolist()
        at = begin % len(self._memory)
        data = self._memory[at : at + end - begin]
        whole = data if len(data) == self._newest.nbytes else np.frombuffer(self._decompress(data), np.uint8)
        return whole.reshape(self._newest.shape)

    def _keep(self, chunk: int) -> None:
        """Compress `_newest` and store it as `chunk`. If it does not fit, nothing changes."""
        data = self._compress(self._newest.data)
        if len(data) >= self._newest.nbytes:
            data = self._newest.tobytes()  # Noise does not compress.
        room, begin = len(self._memory), self._end
        if begin % room + len(data) > room:
            begin += room - begin % room  # A chunk never wraps around the end of the memory.
        oldest, _ = self._place[(chunk + 1) % len(self._place)]
        if begin + len(data) - oldest > room:
            raise self._too_large()
        self._memory[begin % room : begin % room + len(data)] = np.frombuffer(data, np.uint8)
        self._end = begin + len(data)
        self._place[chunk % len(self._place)] = begin, self._end
        self._complete = chunk + 1

    def _check_assumption(self) -> None:
        if self.bytes_held * max(1.0, len(self._place) / PROBED) > len(self._memory):
            raise self._too_large()

    def _too_large(self) -> ResourceError:
        chunks = np.count_nonzero(self._place[:, 1])
        ratio = chunks * self._newest.nbytes / max(1, self.bytes_held)
        return ResourceError(
            f"replay: zstd makes the frames {ratio:.2f} times smaller, but {self._layout.assumed_ratio:.2f} times was "
            f"assumed: they do not fit into the forecast {len(self._memory) / 1e9:,.2f} GB. Use storage 'mmap' or "
            "'memory'; Replay.open(directory, storage='mmap') converts the saved replay"
        )


def zstd() -> ModuleType:
    """Import and return the zstandard package."""
    try:
        import zstandard
    except ModuleNotFoundError:
        raise ConfigError("replay: storage 'compressed' requires zstandard: pip install 'pamd[lab]'") from None
    return zstandard
