"""Presets of distractors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from pamd.config import build
from pamd.envs.distractors.config import DistractorConfig
from pamd.errors import ConfigError, UnknownNameError

__all__ = ["PRESETS", "Preset", "distractor"]


class Preset(NamedTuple):
    """Options of a DistractorConfig and a one-line description."""

    what: str
    options: dict[str, Any]


PRESETS: dict[str, Preset] = {
    "paper-video": Preset(
        "as in the paper: color-shifted natural videos replace the background, a new one per episode", {"hue": 1.0}
    ),
    "released-video": Preset(
        "as in the released code: 1000 gray frames, continued across episodes, replace mostly blue pixels",
        {
            "mask": "blue",
            "grayscale": True,
            "sequence": "continuous",
            "frames": 1000,
            "start": "random",
            "fit": "squash",
        },
    ),
    "easy": Preset("one still image per episode, blended at half strength", {"source": "image", "strength": 0.5}),
    "medium": Preset(
        "videos at strength 0.75 with small hue shifts; small camera motion; the agent's colors vary slightly",
        {"strength": 0.75, "hue": 0.25, "jitter": 1.0, "agent_color": 0.1},
    ),
    "hard": Preset(
        "videos of any hue, forward or backward; the camera sways by 4 degrees; the agent's colors vary",
        {"hue": 1.0, "playback": "either", "jitter": 4.0, "agent_color": 0.3},
    ),
    "video": Preset("unmodified videos replace the background, a new one per episode", {}),
    "image": Preset("one still image per episode replaces the background", {"source": "image"}),
    "noise": Preset("Gaussian noise replaces the background, new in every frame", {"source": "noise"}),
    "color": Preset("one color per episode replaces the background", {"source": "color"}),
    "none": Preset(
        "the task's own background; the camera motion and agent color options still apply", {"source": "none"}
    ),
}


def distractor(name: str, **options: Any) -> DistractorConfig:
    """Return the preset `name`, with `options` (fields of DistractorConfig) overriding its values."""
    if name not in PRESETS:
        raise UnknownNameError("distractor", name, PRESETS)
    given = {key: value for key, value in options.items() if value is not None}
    if "videos" in given:
        # The path must be absolute, because a run may be resumed from another folder.
        given["videos"] = str(Path(given["videos"]).expanduser().absolute())
        if PRESETS[name].options.get("source", "video") not in ("video", "image"):
            raise ConfigError(f"distractor {name!r} shows no videos: omit videos, or choose e.g. paper-video")
    return build(DistractorConfig, {"name": name, **PRESETS[name].options, **given}, f"distractor {name!r}")
