"""The split of clips into training and unseen clips, by content."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pamd.envs.distractors import cache
from pamd.envs.distractors.clips import Clip
from pamd.envs.distractors.config import ClipRef, DistractorConfig, Split
from pamd.envs.distractors.pool import find_clips
from pamd.errors import ClipError, ConfigError

__all__ = ["Report", "load_clips", "prepare"]

MOST_TRAIN, MOST_UNSEEN = 24, 8
"""The maximum numbers of training and unseen clips if the config does not set them."""

Report = Callable[[int, int, str], None]
"""Called with (decoded clips, total clips, name of the next clip) during decoding."""


def prepare(config: DistractorConfig, size: int, report: Report | None = None) -> DistractorConfig:
    """Choose the clips of `config` and decode them at `size`. Returns the config with the digests of the clips.

    If the config already names its clips, exactly these are used. ClipError is raised if one is missing. Copies of a
    clip under another name or in another container count as one clip, so no clip can be on both sides.
    """
    if not config.has_clips:
        return config
    notify = report or (lambda done, total, name: None)
    if config.train:
        refs = (*config.train, *config.unseen)
        for number, ref in enumerate(refs):
            notify(number, len(refs), ref.name)
            _restore(ref, config, size)
        notify(len(refs), len(refs), "")
        return config
    pool = sorted(find_clips(config), key=lambda clip: _ranked(clip.rank(), config.split_seed))
    train, unseen = _counts(config, len(pool))
    cache.check_room(train + unseen, size, config.frames)
    refs = _decode(pool, train + unseen, config, size, notify)
    train, unseen = _counts(config, len(refs))
    return dataclasses.replace(config, train=refs[:train], unseen=refs[train : train + unseen])


def load_clips(config: DistractorConfig, split: Split, size: int) -> list[NDArray[np.uint8]]:
    """Return the memory-mapped clips of one side, each [N, size, size, 3]. `config` comes from `prepare`."""
    for ref in config.clips(split):
        _restore(ref, config, size)
    return [cache.open_frames(cache.cache_path(ref.content, size, config.frames)) for ref in config.clips(split)]


def _decode(
    pool: Sequence[Clip], wanted: int, config: DistractorConfig, size: int, notify: Report
) -> tuple[ClipRef, ...]:
    """Decode the first `wanted` distinct clips of the pool."""
    refs: list[ClipRef] = []
    for clip in pool:
        if len(refs) == wanted:
            break
        notify(len(refs), wanted, clip.name)
        content = clip.content()
        path = cache.cache_path(content, size, config.frames)
        if not _is_whole(path):
            cache.store(clip, content, size, config.frames)
        pixels = cache.digest(path) or ""
        if all(content != ref.content and pixels != ref.pixels for ref in refs):
            refs.append(ClipRef(clip.name, content, pixels))
    notify(len(refs), len(refs), "")
    return tuple(refs)


def _restore(ref: ClipRef, config: DistractorConfig, size: int) -> None:
    """Ensure that exactly the clip `ref` is in the cache."""
    path = cache.cache_path(ref.content, size, config.frames)
    if cache.digest(path) == ref.pixels:
        return
    clip = next((clip for clip in find_clips(config) if clip.content() == ref.content), None)
    if clip is None:
        where = config.videos or "the clips of installed packages and the procedural clips"
        raise ClipError(
            f"the clip {ref.name!r} ({ref.content[:12]}) is neither in the cache nor among {where}: this run was"
            " started with other files. Restore them, or start a new run"
        )
    cache.check_room(1, size, config.frames)
    cache.store(clip, ref.content, size, config.frames)
    if cache.digest(path) != ref.pixels:
        raise ClipError(
            f"the clip {ref.name!r} decodes to different frames at {size}x{size} than in the config: the size or"
            " the decoder has changed. Start a new run without train and unseen in its distractor"
        )


def _is_whole(path: Path) -> bool:
    try:
        cache.open_frames(path)
    except (OSError, ValueError, EOFError):
        return False
    return True


def _ranked(rank: str, seed: int) -> str:
    return hashlib.sha256(f"{seed} {rank}".encode()).hexdigest()


def _counts(config: DistractorConfig, there: int) -> tuple[int, int]:
    """Return the numbers of training and unseen clips."""
    train, unseen = config.train_clips, config.unseen_clips
    if unseen is None:
        unseen = min(MOST_UNSEEN, max(1, there // 4)) if train is None else min(MOST_UNSEEN, there - train)
    if train is None:
        train = min(MOST_TRAIN, there - unseen)
    if train < 1 or unseen < 1 or train + unseen > there:
        asked = f"{max(train, 1)} for training and {max(unseen, 1)} unseen"
        where = config.videos or f"source {config.source}"
        raise ConfigError(
            f"distractor: {asked} need {max(train, 1) + max(unseen, 1)} different clips, but {where} has {there};"
            " a training clip is never used as an unseen clip. Add clips, or request fewer"
        )
    return train, unseen
