"""What an environment is made of, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pamd.config import check_choice, check_whole
from pamd.envs.distractors.config import DistractorConfig
from pamd.errors import ConfigError

__all__ = ["EnvConfig"]

MINIMUM_SIZE = 12
"""Below this many pixels a side, nothing that a task shows can be told apart."""


@dataclass(frozen=True)
class EnvConfig:
    """One pixel control task. Observations are uint8 [3 * frame_stack, size, size], actions float32 [A] in [-1, 1]."""

    task: str
    """`cheetah_run` and every other `domain_task` of the DMControl suite, `gym:ID`, `toy`, or `family:name`."""
    size: int = 84
    frame_stack: int = 3
    action_repeat: int | None = None
    """Simulator frames per decision; None is the paper's for the task (`default_action_repeat`)."""
    camera: int = 0
    """Which of the model's cameras; -1 is MuJoCo's free camera. DMControl only."""
    render: Literal["standard", "fast"] = "standard"
    """`standard` gives dm_control's own pixels; `fast` leaves out shadows, reflections and multisampling, so lines
    thinner than a pixel (the string of ball_in_cup) come and go. Where a task draws itself in one way only, both do."""
    family: Literal["bisimulation", "independent"] | None = None
    """Whose column of the paper's action-repeat table: DBC's, or that of MICo and SimSR."""
    time_limit: int | None = None
    """Simulator frames after which an episode is truncated; None is the task's own limit."""
    distractor: DistractorConfig | None = None
    """What is behind the task in place of its own background; None: its own."""

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
        check_choice(self.what, "render", self.render, ("standard", "fast"))
        if self.family is not None:
            check_choice(self.what, "family", self.family, ("bisimulation", "independent"))

    @property
    def what(self) -> str:
        """How errors name it."""
        return f"environment {self.task!r}"
