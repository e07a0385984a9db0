"""The config of a distractor."""

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
    """One clip, identified by its content. The name is only for display."""

    name: str
    content: str
    """SHA-256 of the file, of the recipe if there is no file, or of both if the file is transformed."""
    pixels: str
    """SHA-256 of the frames decoded at the environment's size, which detects a different decoder."""


@dataclass(frozen=True)
class DistractorConfig:
    """The background, the camera's motion and the agent's colors, all determined by (seed, episode)."""

    name: str = "custom"
    """The name of the preset."""
    source: Literal["video", "image", "noise", "color", "none"] = "video"
    """The source of the background: videos, a still frame of a video, Gaussian noise that changes in every frame, one
    color, or the task's own background."""
    videos: str | None = None
    """A folder of videos and images; None uses clips from installed packages and procedural clips."""
    mask: Literal["segmentation", "blue"] = "segmentation"
    """How the background is detected: by MuJoCo's segmentation, or by the released code's rule (B > G and B > R)."""
    strength: float = 1.0
    """The opacity of the new background. 1 replaces the old one; a smaller value blends the two."""
    hue: float = 0.0
    """The maximum hue rotation, as a fraction of half the color circle. The rotation is sampled per episode. 1 allows
    any hue."""
    grayscale: bool = False
    playback: Literal["forward", "backward", "either"] = "forward"
    """The playback direction; `either` samples it per episode."""
    sequence: Literal["episode", "continuous"] = "episode"
    """`episode` samples a clip and starting frame per episode. `continuous` joins all clips into one video of `frames`
    frames, repeated if necessary, and continues it across episodes."""
    start: Literal["first", "random"] = "first"
    """Where the continuous video starts: at its first frame, or at a random frame that depends on the seed."""
    fit: Literal["crop", "squash"] = "crop"
    """How a frame is made square: crop the central square, or scale the frame without keeping its aspect ratio."""
    noise: float = 0.25
    """Standard deviation of `source: noise` around mid-gray, as a fraction of the pixel range."""
    jitter: float = 0.0
    """The amplitude of the camera's motion in degrees."""
    agent_color: float = 0.0
    """The maximum color change of each moving material, per channel in [0, 1]. The change is sampled per episode."""
    frames: int = 500
    """The maximum number of decoded frames per clip."""
    train_clips: int | None = None
    """The number of training clips; None uses all clips that are not for evaluation, at most 24."""
    unseen_clips: int | None = None
    """The number of evaluation clips; None uses a quarter of all clips (all remaining ones if `train_clips` is set), at
    most 8."""
    split_seed: int = 0
    """The seed of the split into training and evaluation clips."""
    split: Split = "train"
    """The side of the split that this environment shows."""
    train: tuple[ClipRef, ...] = ()
    """The training clips. They are filled in before a run starts, so that a resumed run uses the same clips."""
    unseen: tuple[ClipRef, ...] = ()

    def __post_init__(self) -> None:
        check_choice(WHAT, "source", self.source, ("video", "image", "noise", "color", "none"))
        check_choice(WHAT, "mask", self.mask, ("segmentation", "blue"))
        check_choice(WHAT, "playback", self.playback, ("forward", "backward", "either"))
        check_choice(WHAT, "sequence", self.sequence, ("episode", "continuous"))
        check_choice(WHAT, "start", self.start, ("first", "random"))
        check_choice(WHAT, "fit", self.fit, ("crop", "squash"))
        check_choice(WHAT, "split", self.split, ("train", "unseen"))
        for name, most in (("strength", 1.0), ("hue", 1.0), ("noise", 1.0), ("jitter", 30.0), ("agent_color", 1.0)):
            _check_between(name, getattr(self, name), most)
        check_positive(WHAT, frames=self.frames, train_clips=self.train_clips, unseen_clips=self.unseen_clips)
        if self.frames < 2:
            raise ConfigError(f"{WHAT}: frames must be at least 2, got {self.frames}")
        if self.split_seed < 0:
            raise ConfigError(f"{WHAT}: split_seed must be at least 0, got {self.split_seed}")
        if self.start == "random" and self.sequence != "continuous":
            raise ConfigError(f"{WHAT}: start=random requires sequence=continuous; other clips always start randomly")
        if self.videos is not None and self.source not in ("video", "image"):
            raise ConfigError(f"{WHAT}: videos require source video or image, got {self.source}")
        if bool(self.train) != bool(self.unseen):
            raise ConfigError(f"{WHAT}: train and unseen clips must both be given, or neither")
        self._check_disjoint()

    @property
    def has_clips(self) -> bool:
        """Whether the background consists of clips, so that some of them can be unseen."""
        return self.source in ("video", "image", "color")

    @property
    def moves_scene(self) -> bool:
        """Whether the camera moves or the agent's colors change."""
        return self.jitter > 0 or self.agent_color > 0

    def clips(self, split: Split) -> tuple[ClipRef, ...]:
        """Return the clips of one side of the split."""
        return self.train if split == "train" else self.unseen

    def _check_disjoint(self) -> None:
        for one in self.train:
            for other in self.unseen:
                if one.content == other.content or one.pixels == other.pixels:
                    raise ConfigError(
                        f"{WHAT}: {one.name!r} (training) and {other.name!r} (unseen) are the same clip:"
                        " evaluation on unseen clips requires different ones"
                    )


def _check_between(name: str, value: Any, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise ConfigError(f"{WHAT}: {name} must be a number from 0 to {most:g}, got {value!r}")
