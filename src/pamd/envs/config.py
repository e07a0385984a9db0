"""The config of an environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pamd.config import check_choice, check_whole
from pamd.envs.distractors.config import DistractorConfig
from pamd.envs.state_noise import NoiseConfig
from pamd.errors import ConfigError

__all__ = ["EnvConfig", "Scene"]

Scene = Literal["stock", "released-dbc"]
"""The suite's own colors, or the colors of the released DBC code."""

MINIMUM_SIZE = 12
"""The minimum size. In smaller images, the parts of a task cannot be distinguished."""


@dataclass(frozen=True)
class EnvConfig:
    """One control task. Actions are float32 [A] in [-1, 1].

    Observations are images, uint8 [3 * frame_stack, size, size], or states, float32 [n * frame_stack].
    """

    task: str
    """`cheetah_run` and every other `domain_task` of the DMControl suite, `state:domain_task`, `gym:ID`,
    `toy`, or `family:name`."""
    size: int = 84
    frame_stack: int = 3
    action_repeat: int | None = None
    """Simulator frames per decision. None is the default of the task (the paper's value if it has one), which
    `resolve_env` fills in."""
    camera: int = 0
    """The index of the model's camera; -1 is MuJoCo's free camera. DMControl only."""
    render: Literal["standard", "fast"] = "standard"
    """`standard` gives the same pixels as dm_control. `fast` omits shadows, reflections and multisampling, so lines
    thinner than a pixel (the string of ball_in_cup) flicker. Tasks outside DMControl ignore this option."""
    antialias: int = 1
    """The supersampling factor. Images are drawn this many times larger and averaged, so that subpixel motion is
    visible. 1 turns it off."""
    time_limit: int | None = None
    """Simulator frames after which an episode is truncated; None is the task's own limit."""
    distractor: DistractorConfig | None = None
    """The distractor that replaces the task's background; None keeps the background."""
    noise: NoiseConfig | None = None
    """Noise coordinates appended to the states of a `state:` task; None adds none."""
    scene: Scene = "stock"
    """The colors of floor and sky. `released-dbc` has a dark gray floor (cheetah, hopper, walker) and black marks in
    the sky. DMControl only."""

    def __post_init__(self) -> None:
        if not isinstance(self.task, str) or not self.task.strip():
            raise ConfigError(f"environment: task must be a name such as 'cheetah_run', got {self.task!r}")
        check_whole(self.what, "size", self.size, MINIMUM_SIZE)
        check_whole(self.what, "frame_stack", self.frame_stack, 1)
        check_whole(self.what, "camera", self.camera, -1)
        if self.action_repeat is not None:
            check_whole(self.what, "action_repeat", self.action_repeat, 1)
        if self.time_limit is not None:
            check_whole(self.what, "time_limit", self.time_limit, 1)
        check_whole(self.what, "antialias", self.antialias, 1)
        check_choice(self.what, "render", self.render, ("standard", "fast"))
        check_choice(self.what, "scene", self.scene, get_args(Scene))

    @property
    def picture_shape(self) -> tuple[int, ...]:
        """The shape [k*C, H, W] of stacked images."""
        return (3 * self.frame_stack, self.size, self.size)

    @property
    def what(self) -> str:
        """The name of the environment in error messages."""
        return f"environment {self.task!r}"
