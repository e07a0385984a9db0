"""What distracts, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pamd.config import check_choice, check_positive
from pamd.errors import ConfigError

__all__ = ["ClipRef", "DistractorConfig", "Split"]

Split = Literal["train", "unseen"]

WHAT = "distractor"


@dataclass(frozen=True)
class ClipRef:
    """One clip, by what is in it: the name is only for people."""

    name: str
    content: str
    """SHA-256 of the file, or of the recipe where there is no file."""
    pixels: str
    """SHA-256 of the clip as decoded at the environment's size: another decoder is noticed."""


@dataclass(frozen=True)
class DistractorConfig:
    """A background behind the task, the camera's unrest and the agent's colours, all fixed by (seed, episode)."""

    name: str = "custom"
    """The preset that it comes from."""
    source: Literal["video", "image", "noise", "color", "none"] = "video"
    """Clips; one still frame of a clip; Gaussian pixels, new in every frame; one colour; the task's own background."""
    videos: str | None = None
    """A directory of videos and pictures; None: clips of installed packages, and procedural ones."""
    mask: Literal["segmentation", "blue"] = "segmentation"
    """What is background: MuJoCo's segmentation, or the released rule, pixels with B > G and B > R."""
    strength: float = 1.0
    """1 replaces the background, less blends with it."""
    hue: float = 0.0
    """The colours of a clip are turned by up to this part of half the colour circle, drawn per episode; 1: any hue."""
    grayscale: bool = False
    playback: Literal["forward", "backward", "either"] = "forward"
    """`either` is drawn per episode."""
    sequence: Literal["episode", "continuous"] = "episode"
    """A new clip and starting frame per episode; or all clips as one film of `frames` frames that runs on."""
    noise: float = 0.25
    """Standard deviation of `source: noise` about mid-gray, as a part of the range of a pixel."""
    jitter: float = 0.0
    """Degrees by which the camera turns to and fro."""
    agent_color: float = 0.0
    """By how much the colour of each moving material may change, per channel in [0, 1]; drawn per episode."""
    frames: int = 500
    """At most so many frames of a clip are decoded and kept."""
    train_clips: int | None = None
    """How many clips; None: three quarters of what there is, at most 24."""
    unseen_clips: int | None = None
    """How many clips are kept for evaluation; None: a quarter of what there is, at most 8."""
    split_seed: int = 0
    """Which ones: another number, another split."""
    split: Split = "train"
    """Whose clips this environment shows."""
    train: tuple[ClipRef, ...] = ()
    """Filled in before a run begins: the clips themselves, so that no other ones can take their place."""
    unseen: tuple[ClipRef, ...] = ()

    def __post_init__(self) -> None:
        check_choice(WHAT, "source", self.source, ("video", "image", "noise", "color", "none"))
        check_choice(WHAT, "mask", self.mask, ("segmentation", "blue"))
        check_choice(WHAT, "playback", self.playback, ("forward", "backward", "either"))
        check_choice(WHAT, "sequence", self.sequence, ("episode", "continuous"))
        check_choice(WHAT, "split", self.split, ("train", "unseen"))
        for name, most in (("strength", 1.0), ("hue", 1.0), ("noise", 1.0), ("jitter", 30.0), ("agent_color", 1.0)):
            _check_between(name, getattr(self, name), most)
        check_positive(WHAT, frames=self.frames, train_clips=self.train_clips, unseen_clips=self.unseen_clips)
        if self.frames < 2:
            raise ConfigError(f"{WHAT}: frames must be at least 2, got {self.frames}")
        if self.split_seed < 0:
            raise ConfigError(f"{WHAT}: split_seed must be at least 0, got {self.split_seed}")
        if self.videos is not None and self.source not in ("video", "image"):
            raise ConfigError(f"{WHAT}: videos are for source video or image, not {self.source}")
        if bool(self.train) != bool(self.unseen):
            raise ConfigError(f"{WHAT}: train and unseen clips must both be named, or neither")
        self._check_disjoint()

    @property
    def has_clips(self) -> bool:
        """Whether there are clips at all, and so ones that training never shows."""
        return self.source in ("video", "image", "color")

    @property
    def moves_scene(self) -> bool:
        """Whether the camera or the agent's colours change."""
        return self.jitter > 0 or self.agent_color > 0

    def clips(self, split: Split) -> tuple[ClipRef, ...]:
        """The clips of one side of the split."""
        return self.train if split == "train" else self.unseen

    def _check_disjoint(self) -> None:
        for one in self.train:
            for other in self.unseen:
                if one.content == other.content or one.pixels == other.pixels:
                    raise ConfigError(
                        f"{WHAT}: {one.name!r} (training) and {other.name!r} (unseen) are the same clip:"
                        " evaluation on unseen clips would not be one"
                    )


def _check_between(name: str, value: Any, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise ConfigError(f"{WHAT}: {name} must be a number from 0 to {most:g}, got {value!r}")
