"""The interface of a simulator, and the environment families by name."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pamd.envs.config import EnvConfig, Scene
from pamd.errors import ConfigError
from pamd.registry import Registry

__all__ = [
    "FAMILIES",
    "Adjust",
    "MaskedFrame",
    "Outcome",
    "Task",
    "default_action_repeat",
    "default_frame_stack",
    "least_shape",
    "make_task",
    "observes_states",
    "resolve_env",
    "scale_action",
    "scenes",
]


class Outcome(NamedTuple):
    """The result of one simulator frame."""

    reward: float
    terminated: bool
    """The task itself has ended, so a value target must not bootstrap."""
    truncated: bool
    """The episode has reached its time limit."""
    info: Mapping[str, Any] = {}


class MaskedFrame(NamedTuple):
    """A picture and the mask of its background."""

    frame: NDArray[np.uint8]
    """RGB [size, size, 3]"""
    background: NDArray[np.bool_]
    """[size, size]: True where the picture shows the background, False where it shows the task."""


Adjust = Callable[[Any, Any], None]
"""Called with (mujoco.MjModel, mujoco.MjvScene): changes the scene before it is drawn."""


class Task(ABC):
    """One simulator, frame by frame. `make_env` adds action repeat, frame stack, seeds and the time limit.

    A family is one file with a final subclass, registered in `FAMILIES`. `begin(seed)` and the actions after it must
    determine the whole episode, independent of earlier episodes: exact resuming depends on this.
    """

    action_size: int
    frame_rate: float
    """Simulator frames per second of simulated time; determines the speed of videos."""
    time_limit: int | None = None
    """Frames per episode where the simulator itself has no limit."""
    observation_size: int
    """n, where observations are state vectors [n]. Set by families of states only."""
    states: ClassVar[bool] = False
    """True where observations are state vectors instead of pictures."""
    bare: ClassVar[bool] = False
    """True where the family's name alone is a task (`toy`)."""
    scenes: ClassVar[tuple[Scene, ...]] = ("stock",)
    """The scenes that the family can draw."""
    episode: int = 0
    """The number of the episode; the environment sets it before `begin`."""
    run_seed: int = 0
    """The seed that all episodes share; the environment sets it before `begin`."""

    @abstractmethod
    def __init__(self, name: str, config: EnvConfig) -> None:
        """Build the task `name` of the family; raise UnknownNameError if there is none."""

    @abstractmethod
    def begin(self, seed: int) -> None:
        """Start the episode of `seed` (below 2**32)."""

    @abstractmethod
    def advance(self, action: NDArray[np.float32]) -> Outcome:
        """Simulate one frame under action [A] in [-1, 1]."""

    @abstractmethod
    def draw(self, size: int) -> NDArray[np.uint8]:
        """Draw the current state as a new RGB picture [size, size, 3]."""

    def observe(self, size: int, draw: int = 0) -> NDArray[Any]:
        """The current state as the agent sees it: the picture, uint8 [3, size, size], or a vector, float32 [n].

        `draw` numbers independent draws of the noise of an observation, where it has one.
        """
        return np.ascontiguousarray(self.draw(size).transpose(2, 0, 1))

    def draw_masked(self, size: int, adjust: Adjust | None = None, *, foreground_only: bool = False) -> MaskedFrame:
        """As `draw`, with the mask of the background. With `foreground_only`, background pixels are arbitrary.

        `adjust` changes the drawn scene and never the simulation. ConfigError if the family has no such mask.
        """
        raise ConfigError(
            f"a {type(self).__name__} task has no background mask: distractors require a task of the DMControl suite"
            " or toy, or distractor.mask=blue (the released rule)"
        )

    def close(self) -> None:  # noqa: B027  Most simulators have nothing to release.
        """Release the resources of the simulator. It may be called twice."""

    @classmethod
    def default_action_repeat(cls, name: str) -> int:
        """Simulator frames per decision where the config gives no action repeat."""
        return 1

    @classmethod  # noqa: B027  Not every family can list its tasks.
    def check_name(cls, name: str) -> None:
        """Raise UnknownNameError if the family has no task `name`. This must be cheap: no simulator, no OpenGL."""


FAMILIES: Registry[type[Task]] = Registry("environment family", "pamd.envs")


def make_task(config: EnvConfig) -> Task:
    """The simulator that `config.task` names."""
    cls, name = _resolve(config.task)
    return cls(name, config)


def default_action_repeat(task: str) -> int:
    """Simulator frames per decision of `task` where its config gives no action repeat."""
    cls, name = _resolve(task)
    return cls.default_action_repeat(name)


def observes_states(task: str) -> bool:
    """Whether observations of `task` are state vectors instead of pictures."""
    return _resolve(task)[0].states


def default_frame_stack(task: str) -> int:
    """Frames in an observation where nothing else is asked for: a picture shows no velocity, a state does."""
    return 1 if observes_states(task) else 3


def least_shape(config: EnvConfig) -> tuple[int, ...]:
    """The shape of an observation. Only the simulator knows how long a state is; here it has one number."""
    return (config.frame_stack,) if observes_states(config.task) else config.picture_shape


def scenes(task: str) -> tuple[Scene, ...]:
    """The scenes that `task` can be drawn in."""
    return _resolve(task)[0].scenes


def resolve_env(config: EnvConfig) -> EnvConfig:
    """`config` with its action repeat filled in. UnknownNameError for an unknown family or task.

    This builds no simulator and starts no OpenGL.
    """
    cls, name = _resolve(config.task)
    cls.check_name(name)
    if config.noise is not None and not cls.states:
        raise ConfigError(f"{config.what}: noise requires states, as in state:cheetah_run")
    if config.distractor is not None and cls.states:
        raise ConfigError(f"{config.what}: a distractor requires pictures; use noise for states")
    if config.antialias > 1 and cls.states:
        raise ConfigError(f"{config.what}: antialias requires pictures, got {config.antialias} for states; set 1")
    if config.scene not in cls.scenes:
        raise ConfigError(
            f"{config.what}: scene must be {' or '.join(cls.scenes)}, got {config.scene!r}:"
            " the other scenes require a DMControl task"
        )
    if config.action_repeat is not None:
        return config
    return dataclasses.replace(config, action_repeat=cls.default_action_repeat(name))


def scale_action(action: NDArray[np.float32], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    """Scale action [A] from [-1, 1] to the bounds low, high [A]; a coordinate without bounds stays in [-1, 1]."""
    # An actuator without limits has the range 1e10 in MuJoCo and infinity in Gymnasium.
    bounded = (np.abs(low) < 1e9) & (np.abs(high) < 1e9)
    low = np.where(bounded, low, -1.0).astype(np.float64)
    high = np.where(bounded, high, 1.0).astype(np.float64)
    # Center and half width instead of low and width: for bounds of -1 and 1 this is exactly the identity.
    scaled: NDArray[np.float64] = np.clip((low + high) / 2 + (high - low) / 2 * action.astype(np.float64), low, high)
    return scaled


def _resolve(task: str) -> tuple[type[Task], str]:
    """Family and name of `family:name`, of a bare family such as `toy`, or of a DMControl task."""
    family, colon, name = task.partition(":")
    if colon:
        return FAMILIES.get(family), name
    if family in FAMILIES.names() and FAMILIES.get(family).bare:
        return FAMILIES.get(family), ""
    return FAMILIES.get("dmc"), task
