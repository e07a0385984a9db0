"""What a simulator must offer to become an environment; and the families of them, by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pamd.envs.config import EnvConfig
from pamd.errors import ConfigError
from pamd.registry import Registry

__all__ = ["FAMILIES", "Adjust", "Outcome", "Shot", "Task", "default_action_repeat", "make_task", "scale_action"]


class Outcome(NamedTuple):
    """What one simulator frame brought."""

    reward: float
    terminated: bool
    """The task itself is over: nothing comes after, so nothing is bootstrapped."""
    truncated: bool
    """Only the clock has run out."""
    info: Mapping[str, Any] = {}


class Shot(NamedTuple):
    """A picture that knows its background."""

    frame: NDArray[np.uint8]
    """RGB [size, size, 3]"""
    background: NDArray[np.bool_]
    """[size, size]: True where nothing of the task is, only what is behind it."""


Adjust = Callable[[Any, Any], None]
"""Given (mujoco.MjModel, mujoco.MjvScene), changes the scene that is about to be drawn."""


class Task(ABC):
    """One simulator, frame by frame. Repeats, stacks, seeds and clocks are put around it by `make_env`.

    A family is one file with a final subclass, registered in `FAMILIES`. `begin(seed)` and the actions that follow
    must fix everything, whatever went before: that is what makes resuming exact.
    """

    action_size: int
    frame_rate: float
    """Simulator frames per second of simulated time; sets the speed of videos."""
    time_limit: int | None = None
    """Frames per episode where the simulator itself keeps no limit."""
    bare: ClassVar[bool] = False
    """True where the family's name alone is a task (`toy`)."""
    episode: int = 0
    """The number of the episode; whoever numbers episodes sets it before `begin`."""

    @abstractmethod
    def __init__(self, name: str, config: EnvConfig) -> None:
        """The task called `name` within the family; UnknownNameError if there is none."""

    @abstractmethod
    def begin(self, seed: int) -> None:
        """Start the episode that belongs to `seed` (below 2**32)."""

    @abstractmethod
    def advance(self, action: NDArray[np.float32]) -> Outcome:
        """One simulator frame under action [A] in [-1, 1]."""

    @abstractmethod
    def draw(self, size: int) -> NDArray[np.uint8]:
        """The present state as a new RGB picture [size, size, 3]."""

    def shoot(self, size: int, adjust: Adjust | None = None, *, bare: bool = False) -> Shot:
        """As `draw`, with the background; where `bare`, the picture there may be anything.

        `adjust` changes what is drawn, not what is simulated. ConfigError where the family cannot tell.
        """
        raise ConfigError(
            f"a {type(self).__name__} task cannot tell its background: distractors need a task of the DMControl suite"
            " or toy, or distractor.mask=blue (the released rule)"
        )

    def close(self) -> None:  # noqa: B027  Most simulators hold nothing that outlives them.
        """Give back what the simulator holds. May be called twice."""

    @classmethod
    def default_action_repeat(cls, name: str, family: str | None) -> int:
        """Frames per decision where the config does not say."""
        return 1


FAMILIES: Registry[type[Task]] = Registry("environment family", "pamd.envs")


def make_task(config: EnvConfig) -> Task:
    """The simulator that `config.task` names."""
    cls, name = _resolve(config.task)
    return cls(name, config)


def default_action_repeat(task: str, family: str | None = None) -> int:
    """Simulator frames per decision of `task` where its config does not say; builds nothing."""
    cls, name = _resolve(task)
    return cls.default_action_repeat(name, family)


def scale_action(action: NDArray[np.float32], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    """Action [A] in [-1, 1] to the bounds low, high [A]; a coordinate without a sane bound stays in [-1, 1]."""
    # MuJoCo gives an actuator without limits a range of 1e10, Gymnasium one of infinity: no policy means that.
    bounded = (np.abs(low) < 1e9) & (np.abs(high) < 1e9)
    low = np.where(bounded, low, -1.0).astype(np.float64)
    high = np.where(bounded, high, 1.0).astype(np.float64)
    # Centre and half width, not low and width: the identity is then exact for bounds of -1 and 1.
    scaled: NDArray[np.float64] = np.clip((low + high) / 2 + (high - low) / 2 * action.astype(np.float64), low, high)
    return scaled


def _resolve(task: str) -> tuple[type[Task], str]:
    """`family:name`; a bare family such as `toy`; anything else is a task of the DMControl suite."""
    family, colon, name = task.partition(":")
    if colon:
        return FAMILIES.get(family), name
    if family in FAMILIES.names() and FAMILIES.get(family).bare:
        return FAMILIES.get(family), ""
    return FAMILIES.get("dmc"), task
