"""The config of a distractor."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Le

from pamd.errors import ConfigError
from pamd.schema import Count, Index, record

__all__ = ["ClipRef", "DistractorConfig", "Split"]

Split = Literal["train", "unseen"]

Share = Annotated[float, Ge(0), Le(1)]
"""A number from 0 to 1."""

WHAT = "distractor"


@record(what="clip")
class ClipRef:
    """One clip, identified by its content. The name is only for display."""

    name: str
    content: str
    """SHA-256 of the file, of the recipe if there is no file, or of both if the file is transformed."""
    pixels: str
    """SHA-256 of the frames decoded at the environment's size, which detects a different decoder."""


@record(what="distractor")
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
    strength: Share = 1.0
    """The opacity of the new background. 1 replaces the old one; a smaller value blends the two."""
    hue: Share = 0.0
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
    noise: Share = 0.25
    """Standard deviation of `source: noise` around mid-gray, as a fraction of the pixel range."""
    jitter: Annotated[float, Ge(0), Le(30)] = 0.0
    """The amplitude of the camera's motion in degrees."""
    agent_color: Share = 0.0
    """The maximum color change of each moving material, per channel in [0, 1]. The change is sampled per episode."""
    frames: Annotated[int, Ge(2)] = 500
    """The maximum number of decoded frames per clip."""
    train_clips: Count | None = None
    """The number of training clips; None uses all clips that are not for evaluation, at most 24."""
    unseen_clips: Count | None = None
    """The number of evaluation clips; None uses a quarter of all clips (all remaining ones if `train_clips` is set), at
    most 8."""
    split_seed: Index = 0
    """The seed of the split into training and evaluation clips."""
    split: Split = "train"
    """The side of the split that this environment shows."""
    train: tuple[ClipRef, ...] = ()
    """The training clips. They are filled in before a run starts, so that a resumed run uses the same clips."""
    unseen: tuple[ClipRef, ...] = ()

    def __post_init__(self) -> None:
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
