"""Background frames as a function of (episode seed, episode number, decision)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pamd.envs.distractors.compose import hue_turn, to_gray, to_size, turn_hue
from pamd.envs.distractors.config import DistractorConfig

__all__ = ["Scenery"]

Picture = NDArray[np.uint8]

_STREAM = 0xBACD
"""Separates the random streams of the background and the task, which have the same seed."""


class Scenery:
    """The backgrounds of one side of the split. A frame does not depend on earlier episodes or decisions."""

    def __init__(self, config: DistractorConfig, clips: Sequence[Picture], size: int, decisions: int) -> None:
        """Each of `clips` is [N, size, size, 3]. An episode of `decisions` decisions has one more frame."""
        self._config, self._clips, self._size = config, clips, size
        self._shown_per_episode = decisions + 1
        self._video = _join(clips, config.frames) if config.sequence == "continuous" else []

    def begin(self, seed: int, episode: int, run_seed: int = 0) -> None:
        """Start episode number `episode` with its `seed` (below 2**32). All episodes of a run share `run_seed`."""
        config, rng = self._config, np.random.default_rng([seed, _STREAM])
        self._seed = seed
        clip, start, direction, hue = rng.random(4)
        self._step = {"forward": 1, "backward": -1, "either": 1 if direction < 0.5 else -1}[config.playback]
        self._matrix = hue_turn(np.pi * config.hue * (2 * hue - 1)) if config.hue else None
        if config.sequence == "continuous":
            # Assume that every earlier episode had its full length, so that episodes are independent of each other.
            self._start = self._first(run_seed) + episode * self._shown_per_episode
        elif self._clips:
            self._clip = self._clips[int(clip * len(self._clips))]
            self._start = int(start * len(self._clip))

    def _first(self, run_seed: int) -> int:
        """Return the frame of the continuous video at which episode 0 starts."""
        if self._config.start == "first" or not self._video:
            return 0
        return int(np.random.default_rng([run_seed, _STREAM]).integers(len(self._video)))

    def frame(self, time: int, size: int) -> Picture:
        """Return the background [size, size, 3] at decision `time`."""
        return to_size(self._noise(time) if self._config.source == "noise" else self._picture(time), size)

    def _picture(self, time: int) -> Picture:
        played = self._start + self._step * (time if self._config.source == "video" else 0)
        if self._video:
            clip, number = self._video[played % len(self._video)]
            picture = self._clips[clip][number]
        else:
            picture = self._clip[played % len(self._clip)]
        if self._matrix is not None:
            picture = turn_hue(picture, self._matrix)
        return to_gray(picture) if self._config.grayscale else picture

    def _noise(self, time: int) -> Picture:
        rng = np.random.default_rng([self._seed, _STREAM, time])
        drawn = rng.standard_normal((self._size, self._size, 3), np.float32)
        drawn *= np.float32(255 * self._config.noise)
        drawn += np.float32(127.5)
        noisy = np.clip(drawn, 0, 255, out=drawn).astype(np.uint8)
        return to_gray(noisy) if self._config.grayscale else noisy


def _join(clips: Sequence[Picture], limit: int) -> list[tuple[int, int]]:
    """Join all clips into one video of `limit` frames, as (clip, frame) pairs. If they are too short, repeat them."""
    every = [(index, number) for index, clip in enumerate(clips) for number in range(len(clip))]
    return list(itertools.islice(itertools.cycle(every), limit))
