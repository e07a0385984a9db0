"""Pure functions on pixels. They use integer arithmetic, so images are identical on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_Picture = NDArray[np.uint8]
_Mask = NDArray[np.bool_]

_ONE = 1 << 12
"""The value 1 in the fixed-point format of the color matrices."""


def compose(frame: _Picture, mask: _Mask, background: _Picture, strength: float = 1.0) -> _Picture:
    """Blend `background` [H, W, 3] into `frame` [H, W, 3] by `strength` where `mask` [H, W] is True.

    With `Distracted.draw_masked`, a diagnostic can show one simulator state on any background.
    """
    if strength >= 1.0:
        return _chosen(mask, background, frame)
    weight = round(256 * strength)
    mixed = (frame.astype(np.uint16) * (256 - weight) + background.astype(np.uint16) * weight + 128) >> 8
    return _chosen(mask, mixed.astype(np.uint8), frame)


def _chosen(mask: _Mask, one: _Picture, other: _Picture) -> _Picture:
    """Return `one` where `mask` is True and `other` elsewhere. This is faster than np.where."""
    bits = mask.view(np.uint8) * np.uint8(255)
    return other ^ ((other ^ one) & bits[:, :, None])


def blue_mask(frame: _Picture) -> _Mask:
    """Return the background mask [H, W] of the released code: where blue exceeds red and green in `frame` [H, W, 3]."""
    red, green, blue = frame[..., 0], frame[..., 1], frame[..., 2]
    return (blue > green) & (blue > red)


def hue_turn(angle: float) -> NDArray[np.int32]:
    """Return the fixed-point matrix [3, 3] that rotates colors about the gray axis by `angle` radians."""
    cosine, sine = np.cos(angle), np.sin(angle)
    third, root = (1 - cosine) / 3, np.sqrt(1 / 3) * sine
    # Rodrigues' formula about (1, 1, 1) / sqrt(3). Grays and the mean of the channels are unchanged.
    matrix = np.full((3, 3), third) + cosine * np.eye(3)
    matrix += root * np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    whole: NDArray[np.int32] = np.rint(_ONE * matrix).astype(np.int32)
    return whole


def turn_hue(frame: _Picture, matrix: NDArray[np.int32]) -> _Picture:
    """Multiply `frame` [H, W, 3] by the matrix of `hue_turn` and clip the result to [0, 255]."""
    channels = [frame[..., index].astype(np.int32) for index in range(3)]
    turned = np.empty_like(frame)
    for index, (red, green, blue) in enumerate(matrix):
        mixed = (channels[0] * red + channels[1] * green + channels[2] * blue + _ONE // 2) >> 12
        np.clip(mixed, 0, 255, out=mixed)
        turned[..., index] = mixed
    return turned


def to_gray(frame: _Picture) -> _Picture:
    """Convert `frame` [H, W, 3] to gray, with the luma in all three channels."""
    wide = frame.astype(np.uint32)
    luma = (wide[..., 0] * 299 + wide[..., 1] * 587 + wide[..., 2] * 114 + 500) // 1000
    return np.repeat(luma.astype(np.uint8)[:, :, None], 3, axis=2)


def to_size(frame: _Picture, size: int) -> _Picture:
    """Resize `frame` [S, S, 3] to [size, size, 3] by nearest-neighbor sampling.

    Videos of another size then show the same pixels that the agent sees.
    """
    if len(frame) == size:
        return frame
    nearest = np.arange(size) * len(frame) // size
    return frame[nearest][:, nearest]


def resize_bilinear(frame: _Picture, size: int) -> _Picture:
    """Resize `frame` [H, W, 3] to [size, size, 3] between the four nearest pixels, without antialiasing.

    A pixel's center is its position plus one half, and the edge continues outside. Halves are rounded up.
    """
    top, bottom, down = _neighbors(frame.shape[0], size)
    left, right, along = _neighbors(frame.shape[1], size)
    wide, whole = frame.astype(np.int64), 2 * size
    down, along = down[:, None, None], along[None, :, None]
    upper, lower = (wide[rows][:, left] * (whole - along) + wide[rows][:, right] * along for rows in (top, bottom))
    mixed = upper * (whole - down) + lower * down
    return ((mixed + whole**2 // 2) // whole**2).astype(np.uint8)


def _neighbors(length: int, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the two pixels of `length` that each of `size` pixels lies between, and how far on, in 1 / (2 * size)."""
    places = np.clip((2 * np.arange(size) + 1) * length - size, 0, 2 * size * (length - 1))
    first = places // (2 * size)
    return first, np.minimum(first + 1, length - 1), places % (2 * size)
