"""The configs of environments, distractors and noise, and their presets."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from annotated_types import Ge, Le

from pamd.errors import ConfigError, UnknownNameError
from pamd.schema import Count, Index, NonNegative, build, record

Scene = Literal["stock", "released-dbc"]
"""The colors of floor and sky: the suite's own, or those of the released DBC code."""

_MINIMUM_SIZE = 12
"""The minimum side of an image in pixels. In smaller images, the parts of a task cannot be distinguished."""

Split = Literal["train", "unseen"]
"""The clips of training, or those that only an evaluation shows."""

Plain = bool | int | float | str | list[Any] | dict[str, Any] | None
"""The value of an option that JSON can store."""

_Share = Annotated[float, Ge(0), Le(1)]
"""A number from 0 to 1."""


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
    floor: bool = False
    """Whether the floor is background as well. If the camera sees no sky, it always is."""
    strength: _Share = 1.0
    """The opacity of the new background. 1 replaces the old one; a smaller value blends the two."""
    hue: _Share = 0.0
    """The maximum hue rotation, as a fraction of half the color circle. The rotation is sampled per episode. 1 allows
    any hue."""
    grayscale: bool = False
    """Whether the new background is converted to gray."""
    playback: Literal["forward", "backward", "either"] = "forward"
    """The playback direction; `either` samples it per episode."""
    sequence: Literal["episode", "continuous"] = "episode"
    """`episode` samples a clip and starting frame per episode. `continuous` joins all clips into one video of `frames`
    frames, repeated if necessary, and continues it across episodes."""
    start: Literal["first", "random"] = "first"
    """Where the continuous video starts: at its first frame, or at a random frame that depends on the seed."""
    fit: Literal["crop", "squash"] = "crop"
    """How a frame is made square. `crop` takes the central square and averages over areas. `squash` scales the whole
    frame by bilinear interpolation without antialiasing, after the conversion to gray, as in the released code."""
    noise: _Share = 0.25
    """Standard deviation of `source: noise` around mid-gray, as a fraction of the pixel range."""
    jitter: Annotated[float, Ge(0), Le(30)] = 0.0
    """The amplitude of the camera's motion in degrees."""
    agent_color: _Share = 0.0
    """The maximum color change of each moving material, per channel in [0, 1]. The change is sampled per episode."""
    camera_pose: _Share = 0.0
    """The scale s of the camera's pose around the agent (Distracting Control Suite): yaw, pitch and roll within
    (pi / 2) s, and up to 0.5 s nearer. It is sampled per episode."""
    dynamic: bool = False
    """Whether `camera_pose` and `agent_color` change during an episode, as random walks within their bounds."""
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
    """The evaluation clips, filled in like `train`."""

    def __post_init__(self) -> None:
        if self.start == "random" and self.sequence != "continuous":
            raise ConfigError(
                "distractor: start=random requires sequence=continuous; other clips always start randomly"
            )
        if self.floor and (self.mask != "segmentation" or self.source == "none"):
            raise ConfigError(
                "distractor: floor=true requires mask=segmentation and a source other than none,"
                f" got mask={self.mask} and source={self.source}"
            )
        if self.videos is not None and self.source not in ("video", "image"):
            raise ConfigError(f"distractor: videos require source video or image, got {self.source}")
        if bool(self.train) != bool(self.unseen):
            raise ConfigError("distractor: train and unseen clips must both be given, or neither")
        self._check_disjoint()

    @property
    def has_clips(self) -> bool:
        """Whether the background consists of clips, so that some of them can be unseen."""
        return self.source in ("video", "image", "color")

    @property
    def moves_scene(self) -> bool:
        """Whether the camera moves or the agent's colors change."""
        return self.jitter > 0 or self.agent_color > 0 or self.camera_pose > 0

    def clips(self, split: Split) -> tuple[ClipRef, ...]:
        """Return the clips of one side of the split."""
        return self.train if split == "train" else self.unseen

    def _check_disjoint(self) -> None:
        for one in self.train:
            for other in self.unseen:
                if one.content == other.content or one.pixels == other.pixels:
                    raise ConfigError(
                        f"distractor: {one.name!r} (training) and {other.name!r} (unseen) are the same clip:"
                        " evaluation on unseen clips requires different ones"
                    )


@record(what="noise")
class NoiseConfig:
    """Gaussian noise coordinates, resampled for every decision and appended to the state (Luo et al. 2025)."""

    name: str = "gaussian"
    """The name of the preset."""
    coordinates: Count = 32
    """The number of noise coordinates that are appended to the state."""
    deviation: NonNegative = 2.0
    """Their standard deviation."""
    mean: float = 0.0
    """Their mean."""
    shift: float = 1.0
    """The shift of the mean in the unseen half of an evaluation, in standard deviations."""
    projection: Index | None = None
    """The seed of a random square matrix that mixes state and noise; None turns mixing off."""


@record(what="environment")
class EnvConfig:
    """One control task. Actions are float32 [A] in [-1, 1].

    Observations are images, uint8 [3 * frame_stack, size, size], or states, float32 [n * frame_stack].
    """

    task: str
    """`cheetah_run` and every other `domain_task` of the DMControl suite, `metaworld:TASK`, `state:` before
    either of them, `gym:ID`, `toy`, or `family:name`."""
    size: Annotated[int, Ge(_MINIMUM_SIZE)] = 84
    """The side of the images in pixels."""
    frame_stack: Count = 3
    """The number of consecutive observations in the agent's input."""
    action_repeat: Count | None = None
    """Simulator frames per decision. None is the default of the task (the paper's value if it has one), which
    `resolve_env` fills in."""
    camera: Annotated[int, Ge(-1)] = 0
    """The index of the model's camera; -1 is MuJoCo's free camera. For Meta-World, 0 is the view of the
    literature. DMControl and Meta-World only."""
    render: Literal["standard", "fast"] = "standard"
    """`standard` gives the same pixels as dm_control. `fast` omits shadows, reflections and multisampling, so lines
    thinner than a pixel (the string of ball_in_cup) flicker. DMControl and Meta-World only."""
    antialias: Count = 1
    """The supersampling factor. Images are drawn this many times larger and averaged, so that subpixel motion is
    visible. 1 turns it off."""
    time_limit: Count | None = None
    """Simulator frames after which an episode is truncated; None is the task's own limit, or 1000 if it has none."""
    time_limit_cap: Count | None = None
    """An upper bound on the task's own limit. A `time_limit` takes precedence. None sets no bound."""
    options: dict[str, Plain] = field(default_factory=dict)
    """Options of `gymnasium.make` for a `gym:` task."""
    distractor: DistractorConfig | None = None
    """The distractor that replaces the task's background; None keeps the background."""
    noise: NoiseConfig | None = None
    """Noise coordinates appended to the states of a `state:` task; None adds none."""
    scene: Scene = "stock"
    """The colors of floor and sky. `released-dbc` has a dark gray floor (cheetah, hopper, walker) or a blue one (all
    other domains), and black marks in the sky. DMControl only."""

    def __post_init__(self) -> None:
        if not self.task.strip():
            raise ConfigError(f"environment: task must be a name such as 'cheetah_run', got {self.task!r}")

    @property
    def picture_shape(self) -> tuple[int, ...]:
        """The shape [k*C, H, W] of stacked images."""
        return (3 * self.frame_stack, self.size, self.size)

    def limit(self, own: int | None) -> int | None:
        """Return the simulator frames per episode of a task with the limit `own`. None: the simulator ends episodes."""
        if self.time_limit is not None:
            return self.time_limit
        return min((limit for limit in (own, self.time_limit_cap) if limit is not None), default=None)

    @property
    def replaces_floor(self) -> bool:
        """Whether the distractor replaces the floor in addition to the sky."""
        return self.distractor is not None and self.distractor.floor

    @property
    def what(self) -> str:
        """The name of the environment in error messages."""
        return f"environment {self.task!r}"


# -- Presets -----------------------------------------------------------------------------------------------------------


class Preset(NamedTuple):
    """Options of a DistractorConfig and a one-line description."""

    what: str
    options: dict[str, Any]


def _distracting(level: str, scale: float, videos: int | None, dynamic: bool) -> Preset:
    """Return a preset of the Distracting Control Suite: background, colors and camera at one scale (0.1, 0.2, 0.3)."""
    options = {"source": "video" if dynamic else "image", "agent_color": scale, "camera_pose": scale}
    shown = f"{videos} videos" if videos else "all videos"
    what = "moving" if dynamic else "still"
    return Preset(
        f"Distracting Control Suite, {level}, {what}: {shown}; colors and camera pose at scale {scale}",
        {**options, "dynamic": dynamic, "train_clips": videos},
    )


_DISTRACTING = {
    f"distracting-{level}{'' if dynamic else '-static'}": _distracting(level, scale, videos, dynamic)
    for dynamic in (True, False)
    for level, scale, videos in (("easy", 0.1, 4), ("medium", 0.2, 8), ("hard", 0.3, None))
}

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
    "color-easy": Preset(
        "after DMControl-GB: one color per episode tints sky and floor by a quarter; the agent's colors vary slightly",
        {"source": "color", "floor": True, "strength": 0.25, "agent_color": 0.1},
    ),
    "color-hard": Preset(
        "after DMControl-GB: one color per episode tints sky and floor by three quarters; the agent's colors vary",
        {"source": "color", "floor": True, "strength": 0.75, "agent_color": 0.5},
    ),
    "video-easy": Preset("as in DMControl-GB: unmodified videos replace the sky; another name of `video`", {}),
    "video-hard": Preset("as in DMControl-GB: unmodified videos replace the sky and the floor", {"floor": True}),
    **_DISTRACTING,
    "none": Preset(
        "the task's own background; the camera motion and agent color options still apply", {"source": "none"}
    ),
}


def distractor(name: str, **options: Any) -> DistractorConfig:
    """Return the preset `name`, with `options` (fields of DistractorConfig) overriding its values.

    An option that is None keeps the preset's value.
    """
    if name not in PRESETS:
        raise UnknownNameError("distractor", name, PRESETS)
    overrides = {key: value for key, value in options.items() if value is not None}
    if "videos" in overrides:
        # The path must be absolute, because a run may be resumed from another folder.
        overrides["videos"] = str(Path(overrides["videos"]).expanduser().absolute())
        if not shows_videos(name):
            raise ConfigError(f"distractor {name!r} shows no videos: omit videos, or choose e.g. paper-video")
    return build(DistractorConfig, {"name": name, **PRESETS[name].options, **overrides}, f"distractor {name!r}")


def shows_videos(name: str) -> bool:
    """Return whether the preset `name` shows videos or images, which may come from a folder."""
    return name in PRESETS and PRESETS[name].options.get("source", "video") in ("video", "image")


NOISES: dict[str, dict[str, Any]] = {
    "gaussian": {},
    "projected": {"projection": 0},
}
"""Presets: noise in separate coordinates, and noise mixed with the state by a random matrix."""


def noise(name: str, **options: Any) -> NoiseConfig:
    """Return the preset `name`, with `options` (fields of NoiseConfig) overriding its values."""
    if name not in NOISES:
        raise UnknownNameError("noise", name, NOISES)
    return build(NoiseConfig, {"name": name, **NOISES[name], **options}, f"noise {name!r}")
