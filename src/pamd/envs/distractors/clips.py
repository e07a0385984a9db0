"""Sources of clips: videos, numbered pictures, photographs that are panned and zoomed, procedural videos, colors."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pamd.envs.distractors.compose import resize_bilinear, to_gray
from pamd.envs.distractors.motion import pan_and_zoom, procedural
from pamd.errors import ClipError

Fit = Literal["crop", "squash"]
"""How a frame is made square: the central square, area-averaged, or the whole frame, bilinear without antialiasing."""

_HEAD_BYTES = 1 << 16
_WHOLE = 0.9
"""The minimum fraction of the declared frames that must be decodable. Headers are not always exact."""


class Clip(ABC):
    """A source of background frames."""

    name: str

    @abstractmethod
    def content(self) -> str:
        """Return the SHA-256 of the file, of the recipe, or of both."""

    @abstractmethod
    def frames(self, size: int, limit: int) -> Iterator[NDArray[np.uint8]]:
        """Yield at most `limit` frames [size, size, 3], decoded one at a time."""

    def rank(self) -> str:
        """Return a cheap digest of the content, for choosing among many clips."""
        return self.content()


class _Files(Clip):
    """A clip in one file, or in several that are read in order."""

    def __init__(self, path: Path, files: Sequence[Path] = ()) -> None:
        self.path, self.name, self._files = path, path.name, tuple(files) or (path,)

    def content(self) -> str:
        digests = [_digest(path) for path in self._files]
        return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()

    def rank(self) -> str:
        # Read only the beginning of the first file: choosing thirty of ten thousand videos must not read all of them.
        count, first = len(self._files), self._files[0]
        try:
            with first.open("rb") as file:
                head = file.read(_HEAD_BYTES)
            size = str(first.stat().st_size) if count == 1 else f"{count} {first.stat().st_size}"
        except OSError as error:
            raise ClipError(f"{first} cannot be read: {error.strerror or error}") from None
        return hashlib.sha256(size.encode() + head).hexdigest()

    def _pictures(self, scaled: Callable[[Any], NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
        """Yield every image of the files as RGB [H, W, 3]. `scaled` converts a frame of the decoder."""
        for path in self._files:
            yield from _decoded(path, scaled)


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ClipError(f"{path} cannot be read: {error.strerror or error}") from None


def _decoded(path: Path, scaled: Callable[[Any], NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    import av

    try:
        if not path.stat().st_size:
            raise ClipError(f"{path} is empty")
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise ClipError(f"{path} contains no images")
            count, declared = 0, container.streams.video[0].frames  # 0 if the header does not declare it
            for frame in container.decode(container.streams.video[0]):
                yield scaled(frame)
                count += 1
            if count < _WHOLE * declared:
                raise ClipError(f"{path} is truncated: only {count} of its {declared} frames can be decoded")
    except (av.FFmpegError, OSError) as error:
        raise ClipError(f"{path} cannot be decoded: {error}; remove or replace it") from None


class Video(_Files):
    """A video file, or a folder of numbered `pictures`, cropped to its central square or scaled to a square.

    With `gray`, a video that is scaled to a square is converted to gray before, as in the released code.
    """

    def __init__(self, path: Path, fit: Fit = "crop", gray: bool = False, pictures: Sequence[Path] = ()) -> None:
        super().__init__(path, pictures)
        self._fit, self._gray = fit, gray

    def content(self) -> str:
        content = super().content()
        if self._fit == "crop":
            return content
        recipe = b"squash gray, 2" if self._gray else b"squash, 2"
        return hashlib.sha256(recipe + content.encode()).hexdigest()

    def frames(self, size: int, limit: int) -> Iterator[NDArray[np.uint8]]:
        count = 0
        for picture in self._pictures(lambda frame: self._fitted(frame, size)):
            yield picture
            count += 1
            if count == limit:
                return
        if count < 2:
            found = "only one frame" if count else "no frames"
            raise ClipError(
                f"{self.path} has {found}: it is not a video. An image (.png, .jpg) would be panned and zoomed"
            )

    def _fitted(self, frame: Any, size: int) -> NDArray[np.uint8]:
        if self._fit == "crop":
            return _central_square(frame, size)
        picture = frame.to_ndarray(format="rgb24")
        return resize_bilinear(to_gray(picture) if self._gray else picture, size)


class Photograph(_Files):
    """A still image with slow panning and zooming."""

    RECIPE = b"pan and zoom, 1"

    def content(self) -> str:
        return hashlib.sha256(self.RECIPE + super().content().encode()).hexdigest()

    def frames(self, size: int, limit: int) -> Iterator[NDArray[np.uint8]]:
        picture = next(self._pictures(lambda frame: _shrunk(frame, 2 * size)), None)
        if picture is None:
            raise ClipError(f"{self.path} contains no image")
        return pan_and_zoom(picture, size, limit, np.random.default_rng(int(self.content()[:16], 16)))


class Procedural(Clip):
    """Procedural video number `index`."""

    def __init__(self, index: int) -> None:
        self.index, self.name = index, f"procedural-{index:02d}"

    def content(self) -> str:
        return hashlib.sha256(f"procedural, 1: {self.index}".encode()).hexdigest()

    def frames(self, size: int, limit: int) -> Iterator[NDArray[np.uint8]]:
        return procedural(self.index, size, limit)


class Color(Clip):
    """One constant color."""

    def __init__(self, rgb: tuple[int, int, int]) -> None:
        self.rgb, self.name = rgb, "#{:02x}{:02x}{:02x}".format(*rgb)

    def content(self) -> str:
        return hashlib.sha256(f"color, 1: {self.name}".encode()).hexdigest()

    def frames(self, size: int, limit: int) -> Iterator[NDArray[np.uint8]]:
        yield np.full((size, size, 3), self.rgb, np.uint8)


def _shrunk(frame: Any, shortest: int) -> NDArray[np.uint8]:
    """Scale a frame [H, W, 3] so that its shorter side has `shortest` pixels."""
    scale = shortest / min(frame.width, frame.height)
    return _scaled(frame, max(shortest, round(frame.width * scale)), max(shortest, round(frame.height * scale)))


def _central_square(frame: Any, size: int) -> NDArray[np.uint8]:
    picture = _shrunk(frame, size)
    top, left = (picture.shape[0] - size) // 2, (picture.shape[1] - size) // 2
    return picture[top : top + size, left : left + size]


def _scaled(frame: Any, width: int, height: int) -> NDArray[np.uint8]:
    picture: NDArray[np.uint8] = frame.reformat(
        width=width, height=height, format="rgb24", interpolation="AREA"
    ).to_ndarray()
    return picture
