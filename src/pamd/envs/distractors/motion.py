"""Generated videos: panning and zooming over a photograph, and procedural videos."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

_PERIOD = 250
"""The period of these videos in frames; they repeat without a jump."""

_Picture = NDArray[np.uint8]
_Floats = NDArray[np.float64]


def pan_and_zoom(picture: _Picture, size: int, limit: int, rng: np.random.Generator) -> Iterator[_Picture]:
    """Yield frames [size, size, 3] of a window that moves over `picture` [H, W, 3].

    The side of the window is 45% to 90% of the shorter side of the picture.
    """
    height, width = picture.shape[:2]
    side = min(height, width)
    phases, turns = rng.uniform(0, 2 * np.pi, 3), rng.integers(1, 4, 3)
    pixels = picture.astype(np.float32)
    for number in range(min(limit, _PERIOD)):
        wave = np.sin(2 * np.pi * turns * number / _PERIOD + phases)
        window = side * (0.675 + 0.225 * wave[0])
        top, left = (height - window) * (1 + wave[1]) / 2, (width - window) * (1 + wave[2]) / 2
        yield _window(pixels, top, left, window, size)


def procedural(index: int, size: int, limit: int) -> Iterator[_Picture]:
    """Yield frames [size, size, 3] of procedural video number `index`. Four kinds alternate."""
    rng = np.random.default_rng([index, 1])
    kind = (_plasma, _gratings, _discs, _clouds)[index % 4]
    axis = (np.arange(size) + 0.5) / size
    draw = kind(rng, *np.meshgrid(axis, axis, indexing="ij"))
    for number in range(min(limit, _PERIOD)):
        yield np.rint(255 * np.clip(draw(2 * np.pi * number / _PERIOD), 0, 1)).astype(np.uint8)


_Draw = Callable[[float], _Floats]
"""A function that maps time in [0, 2 pi) to an image [size, size, 3]. Its values are then clipped to [0, 1]."""


def _plasma(rng: np.random.Generator, rows: _Floats, columns: _Floats) -> _Draw:
    """Return a function that draws crossing waves, each with its own color."""
    waves = [
        (rng.uniform(-9, 9, 2), int(rng.integers(1, 4)), rng.uniform(0, 6.28), rng.normal(0, 1, 3)) for _ in range(7)
    ]

    def draw(time: float) -> _Floats:
        total = np.zeros((*rows.shape, 3))
        for (down, across), turns, phase, color in waves:
            total += np.sin(down * rows + across * columns + turns * time + phase)[:, :, None] * color
        return 0.5 + total / 8

    return draw


def _gratings(rng: np.random.Generator, rows: _Floats, columns: _Floats) -> _Draw:
    """Return a function that draws two rotating striped patterns."""
    colors = rng.uniform(0, 1, (3, 3))
    frequencies, turns = rng.uniform(12, 40, 2), rng.choice([-2, -1, 1, 2], 2)
    y, x = rows - 0.5, columns - 0.5

    def draw(time: float) -> _Floats:
        picture = np.broadcast_to(colors[0], (*rows.shape, 3)).copy()
        for color, frequency, turn in zip(colors[1:], frequencies, turns, strict=True):
            along = y * np.sin(turn * time) + x * np.cos(turn * time)
            cover = 0.5 + 0.5 * np.sin(frequency * along + 3 * time)
            picture += cover[:, :, None] * (color - picture)
        return picture

    return draw


def _discs(rng: np.random.Generator, rows: _Floats, columns: _Floats) -> _Draw:
    """Return a function that draws soft discs on separate orbits over a gradient."""
    first, last = rng.uniform(0, 1, (2, 3))
    discs = [
        (
            rng.uniform(0.1, 0.9, 2),
            rng.uniform(0.1, 0.4, 2),
            rng.integers(1, 4, 2),
            rng.uniform(0, 6.28, 2),
            rng.uniform(0.04, 0.16),
            rng.uniform(0, 1, 3),
        )
        for _ in range(9)
    ]

    def draw(time: float) -> _Floats:
        picture: _Floats = first + (last - first) * rows[:, :, None]
        for center, reach, turns, phases, radius, color in discs:
            row, column = center + reach * np.sin(turns * time + phases)
            distance = np.hypot(rows - row, columns - column)
            picture += np.clip(8 * (1.2 - distance / radius), 0, 1)[:, :, None] * (color - picture)
        return picture

    return draw


def _clouds(rng: np.random.Generator, rows: _Floats, columns: _Floats) -> _Draw:
    """Return a function that draws layers of smooth noise that drift at random speeds."""
    layers = []
    for cells, weight in ((4, 0.5), (8, 0.3), (16, 0.2)):
        layers.append((rng.uniform(0, 1, (cells, cells, 3)), weight, rng.choice([-2, -1, 1, 2], 2)))

    def draw(time: float) -> _Floats:
        picture = np.zeros((*rows.shape, 3))
        for lattice, weight, speed in layers:
            shift = speed * time / (2 * np.pi)
            picture += weight * _periodic(lattice, rows[:, 0] + shift[0], columns[0] + shift[1])
        return 0.5 + 1.6 * (picture - 0.5)

    return draw


def _periodic(lattice: _Floats, rows: _Floats, columns: _Floats) -> _Floats:
    """Interpolate the periodic `lattice` [N, N, 3] with period 1 at rows [H] x columns [W]."""
    cells = len(lattice)
    for axis, at in enumerate((rows, columns)):
        place = at * cells
        before = np.floor(place).astype(int)
        share = place - before
        share = (share * share * (3 - 2 * share)).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
        low, high = lattice.take(before % cells, axis), lattice.take((before + 1) % cells, axis)
        lattice = low + share * (high - low)
    return lattice


def _window(pixels: NDArray[np.float32], top: float, left: float, side: float, size: int) -> _Picture:
    """Crop the square of `side` at (top, left) from pixels [H, W, 3] and resize it bilinearly to [size, size, 3]."""
    for axis, start in enumerate((top, left)):
        length = pixels.shape[axis]
        place = np.clip(start + (np.arange(size) + 0.5) * side / size - 0.5, 0, length - 1)
        before = np.minimum(place.astype(int), length - 2)
        share = (place - before).astype(np.float32).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
        low, high = pixels.take(before, axis), pixels.take(before + 1, axis)
        pixels = low + share * (high - low)
    return np.rint(pixels).clip(0, 255).astype(np.uint8)
