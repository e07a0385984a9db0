"""The config of an environment."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge

from pamd.envs.distractors.config import DistractorConfig
from pamd.envs.state_noise import NoiseConfig
from pamd.errors import ConfigError
from pamd.schema import Count, record

__all__ = ["EnvConfig", "Scene"]

Scene = Literal["stock", "released-dbc"]
"""The suite's own colors, or the colors of the released DBC code."""

MINIMUM_SIZE = 12
"""The minimum size. In smaller images, the parts of a task cannot be distinguished."""


@record(what="environment")
class EnvConfig:
    """One control task. Actions are float32 [A] in [-1, 1].

    Observations are images, uint8 [3 * frame_stack, size, size], or states, float32 [n * frame_stack].
    """

    task: str
    """`cheetah_run` and every other `domain_task` of the DMControl suite, `state:domain_task`, `gym:ID`,
    `toy`, or `family:name`."""
    size: Annotated[int, Ge(MINIMUM_SIZE)] = 84
    frame_stack: Count = 3
    action_repeat: Count | None = None
    """Simulator frames per decision. None is the default of the task (the paper's value if it has one), which
    `resolve_env` fills in."""
    camera: Annotated[int, Ge(-1)] = 0
    """The index of the model's camera; -1 is MuJoCo's free camera. DMControl only."""
    render: Literal["standard", "fast"] = "standard"
    """`standard` gives the same pixels as dm_control. `fast` omits shadows, reflections and multisampling, so lines
    thinner than a pixel (the string of ball_in_cup) flicker. Tasks outside DMControl ignore this option."""
    antialias: Count = 1
    """The supersampling factor. Images are drawn this many times larger and averaged, so that subpixel motion is
    visible. 1 turns it off."""
    time_limit: Count | None = None
    """Simulator frames after which an episode is truncated; None is the task's own limit."""
    distractor: DistractorConfig | None = None
    """The distractor that replaces the task's background; None keeps the background."""
    noise: NoiseConfig | None = None
    """Noise coordinates appended to the states of a `state:` task; None adds none."""
    scene: Scene = "stock"
    """The colors of floor and sky. `released-dbc` has a dark gray floor (cheetah, hopper, walker) and black marks in
    the sky. DMControl only."""

    def __post_init__(self) -> None:
        if not self.task.strip():
            raise ConfigError(f"environment: task must be a name such as 'cheetah_run', got {self.task!r}")

    @property
    def picture_shape(self) -> tuple[int, ...]:
        """The shape [k*C, H, W] of stacked images."""
        return (3 * self.frame_stack, self.size, self.size)

    @property
    def what(self) -> str:
        """The name of the environment in error messages."""
        return f"environment {self.task!r}"
