"""Distractors by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from pamd.config import build
from pamd.envs.distractors.config import DistractorConfig
from pamd.errors import ConfigError, UnknownNameError

__all__ = ["PRESETS", "Preset", "distractor"]


class Preset(NamedTuple):
    """Options of a DistractorConfig and their description in one line."""

    what: str
    options: dict[str, Any]


PRESETS: dict[str, Preset] = {
    "paper-video": Preset(
        "the paper's: color-shifted natural videos instead of the background, a new one per episode", {"hue": 1.0}
    ),
    "released-video": Preset(
        "the released code's: 1000 gray frames that continue across episodes, wherever a pixel is mostly blue",
        {
            "mask": "blue",
            "grayscale": True,
            "sequence": "continuous",
            "frames": 1000,
            "start": "random",
            "fit": "squash",
        },
    ),
    "easy": Preset("a still picture per episode, half blended in", {"source": "image", "strength": 0.5}),
    "medium": Preset(
        "videos at three quarters, hues a little shifted, the camera and the agent's colors a little unsteady",
        {"strength": 0.75, "hue": 0.25, "jitter": 1.0, "agent_color": 0.1},
    ),
    "hard": Preset(
        "videos of any hue, played either way, a camera that sways by 4 degrees, an agent of changing colors",
        {"hue": 1.0, "playback": "either", "jitter": 4.0, "agent_color": 0.3},
    ),
    "video": Preset("unchanged videos instead of the background, a new one per episode", {}),
    "image": Preset("a still picture per episode instead of the background", {"source": "image"}),
    "noise": Preset("Gaussian pixels instead of the background, new in every frame", {"source": "noise"}),
    "color": Preset("one color per episode instead of the background", {"source": "color"}),
    "none": Preset(
        "the task's own background; options may still move the camera or recolor the agent", {"source": "none"}
    ),
}


def distractor(name: str, **options: Any) -> DistractorConfig:
    """The distractor called `name`, with `options` (fields of DistractorConfig) overriding the preset's."""
    if name not in PRESETS:
        raise UnknownNameError("distractor", name, PRESETS)
    given = {key: value for key, value in options.items() if value is not None}
    if "videos" in given:
        # Absolute, because a run may be resumed from another folder.
        given["videos"] = str(Path(given["videos"]).expanduser().absolute())
        if PRESETS[name].options.get("source", "video") not in ("video", "image"):
            raise ConfigError(f"distractor {name!r} shows no videos: leave videos out, or choose e.g. paper-video")
    return build(DistractorConfig, {"name": name, **PRESETS[name].options, **given}, f"distractor {name!r}")
