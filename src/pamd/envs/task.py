"""The simulator interface and the registry of environment families."""

from __future__ import annotations

import dataclasses
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pamd.envs.backend import not_installed
from pamd.envs.config import EnvConfig, Scene
from pamd.errors import ConfigError, TaskError, UnknownNameError, nearest
from pamd.registry import Registry

DEFAULT_TIME_LIMIT = 1000
"""Frames per episode of a task without a known limit. Without any limit, an evaluation might never end."""


class Outcome(NamedTuple):
    """The result of one simulator frame."""

    reward: float
    terminated: bool
    """The task itself has ended, so a value target must not bootstrap."""
    truncated: bool
    """The episode has reached its time limit."""
    info: Mapping[str, Any] = {}


class MaskedFrame(NamedTuple):
    """An image and the mask of its background."""

    frame: NDArray[np.uint8]
    """RGB [size, size, 3]"""
    background: NDArray[np.bool_]
    """[size, size]: True where the image shows the background, False where it shows the task."""


Adjust = Callable[[Any, Any], None]
"""A function of (mujoco.MjModel, mujoco.MjvScene) that changes the scene before it is drawn."""


class Task(ABC):
    """The interface of a simulator. `make_env` adds action repeat, frame stacking, seeding and the time limit.

    A family is one file with a final subclass, registered in `FAMILIES`. `begin(seed)` and the following actions must
    determine the whole episode, independently of earlier episodes. Exact resume depends on this.
    """

    action_size: int
    frame_rate: float
    """Simulator frames per second of simulated time. It determines the playback speed of videos."""
    time_limit: int | Literal["unknown"] | None = "unknown"
    """Frames per episode. None: the simulator itself ends every episode. "unknown": perhaps it never does, so that
    DEFAULT_TIME_LIMIT applies."""
    observation_size: int
    """The dimension n of state observations [n]. Only set by families with state observations."""
    states: ClassVar[bool] = False
    """True if observations are state vectors instead of images."""
    bare: ClassVar[bool] = False
    """True if the family name alone is a valid task (`toy`)."""
    scenes: ClassVar[tuple[Scene, ...]] = ("stock",)
    """The scenes that the family can draw."""
    takes_options: ClassVar[bool] = False
    """True if the family reads `EnvConfig.options`."""
    episode: int = 0
    """The number of the episode; the environment sets it before `begin`."""
    run_seed: int = 0
    """The seed that all episodes share; the environment sets it before `begin`."""

    @abstractmethod
    def __init__(self, name: str, config: EnvConfig) -> None:
        """Build the task `name` of the family. Raises UnknownNameError if there is no such task."""

    @abstractmethod
    def begin(self, seed: int) -> None:
        """Start the episode of `seed` (below 2**32)."""

    @abstractmethod
    def advance(self, action: NDArray[np.float32]) -> Outcome:
        """Simulate one frame under action [A] in [-1, 1]."""

    @abstractmethod
    def draw(self, size: int) -> NDArray[np.uint8]:
        """Draw the current state as a new RGB image [size, size, 3]."""

    def observe(self, size: int, draw: int = 0) -> NDArray[Any]:
        """Return the current observation: an image, uint8 [3, size, size], or a vector, float32 [n].

        If the observation has noise, each value of `draw` gives an independent noise sample.
        """
        return np.ascontiguousarray(self.draw(size).transpose(2, 0, 1))

    def draw_masked(self, size: int, adjust: Adjust | None = None, *, foreground_only: bool = False) -> MaskedFrame:
        """Draw an image with the mask of its background. With `foreground_only`, background pixels are arbitrary.

        `adjust` changes the rendered scene and never the simulation. Raises ConfigError if the family has no mask.
        """
        raise ConfigError(
            f"a {type(self).__name__} task has no background mask: distractors require a task of the DMControl suite"
            " or toy, or distractor.mask=blue (the released rule)"
        )

    def close(self) -> None:  # noqa: B027  Most simulators have nothing to release.
        """Release the resources of the simulator. Calling this twice is allowed."""

    @classmethod
    def default_action_repeat(cls, name: str) -> int:
        """Return the simulator frames per decision to use if the config sets no action repeat."""
        return 1

    @classmethod
    def tasks(cls) -> Sequence[str]:
        """Return the tasks of the family as a user writes them. Empty if they cannot be listed."""
        return ()

    @classmethod
    def module(cls, name: str) -> str | None:
        """Return the Python module that the task `name` names and that building it imports; None if there is none."""
        return None

    @classmethod  # noqa: B027  Not every family can list its tasks.
    def check_name(cls, name: str) -> None:
        """Raise UnknownNameError if the family has no task `name`. This must be cheap and start no simulator."""


FAMILIES: Registry[type[Task]] = Registry("environment family", "pamd.envs")


def make_task(config: EnvConfig) -> Task:
    """Build the simulator of `config.task`."""
    cls, name = _resolve(config.task)
    return cls(name, config)


def default_action_repeat(task: str) -> int:
    """Return the simulator frames per decision to use for `task` if the config sets no action repeat."""
    cls, name = _resolve(task)
    return cls.default_action_repeat(name)


def observes_states(task: str) -> bool:
    """Return whether observations of `task` are state vectors instead of images."""
    return _resolve(task)[0].states


def default_frame_stack(task: str) -> int:
    """Return the default number of stacked frames. A single image shows no velocity, but a state contains it."""
    return 1 if observes_states(task) else 3


def least_shape(config: EnvConfig) -> tuple[int, ...]:
    """Return a lower bound on the observation shape. States have size 1 here, because only the simulator knows it."""
    return (config.frame_stack,) if observes_states(config.task) else config.picture_shape


def refuse_import(env: EnvConfig, file: object) -> None:
    """Raise TaskError if building `env`, which is from `file`, would run code that the file chooses.

    That is a module that the task names, or options for the constructor of an environment, which may load anything. A
    module that this process has already imported is accepted, because building the task imports nothing then.
    """
    cls, name = _resolve(env.task)
    module = cls.module(name)
    if module in sys.modules or not _needs_trust(env):
        return
    does = f"passes options to its constructor ({', '.join(env.options)})"
    instead = "in Python: trust=True"
    if module is not None:
        does, instead = f"imports the Python module {module!r}", f"{instead}, or `import {module}` first"
    raise TaskError(
        f"{file} names the task {env.task!r}, which {does}; a file must not choose code to run. If you trust it, use"
        f" --trust ({instead})"
    )


def trust_flag(env: EnvConfig) -> str:
    """Return " --trust" if a command that reads `env` from a file needs it; otherwise ""."""
    return " --trust" if _needs_trust(env) else ""


def _needs_trust(env: EnvConfig) -> bool:
    cls, name = _resolve(env.task)
    return cls.module(name) is not None or bool(env.options)


def scenes(task: str) -> tuple[Scene, ...]:
    """Return the available scenes of `task`."""
    return _resolve(task)[0].scenes


def resolve_env(config: EnvConfig) -> EnvConfig:
    """Return `config` with its action repeat filled in. Raises UnknownNameError for an unknown family or task.

    This builds no simulator and starts no OpenGL.
    """
    cls, name = _resolve(config.task)
    cls.check_name(name)
    if config.noise is not None and not cls.states:
        raise ConfigError(f"{config.what}: noise requires states, as in state:cheetah_run")
    if config.distractor is not None and cls.states:
        raise ConfigError(f"{config.what}: a distractor requires images; use noise for states")
    if config.antialias > 1 and cls.states:
        raise ConfigError(f"{config.what}: antialias requires images, got {config.antialias} for states; set 1")
    if config.options and not cls.takes_options:
        raise ConfigError(f"{config.what}: options are for gym: tasks only, got {', '.join(config.options)}")
    if config.scene not in cls.scenes:
        raise ConfigError(
            f"{config.what}: scene must be {' or '.join(cls.scenes)}, got {config.scene!r}:"
            " the other scenes require a DMControl task"
        )
    if config.action_repeat is not None:
        return config
    return dataclasses.replace(config, action_repeat=cls.default_action_repeat(name))


def episode_frames(task: Task, config: EnvConfig) -> int | None:
    """Return the frames after which an episode is truncated. None: the simulator itself ends every episode."""
    return config.limit(DEFAULT_TIME_LIMIT if task.time_limit == "unknown" else task.time_limit)


def scale_action(action: NDArray[np.float32], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    """Scale action [A] from [-1, 1] to the bounds low, high [A]. A coordinate without bounds stays in [-1, 1]."""
    # An actuator without limits has the range 1e10 in MuJoCo and infinity in Gymnasium.
    bounded = (np.abs(low) < 1e9) & (np.abs(high) < 1e9)
    low = np.where(bounded, low, -1.0).astype(np.float64)
    high = np.where(bounded, high, 1.0).astype(np.float64)
    # Using center and half width makes this exactly the identity for bounds of -1 and 1.
    scaled: NDArray[np.float64] = np.clip((low + high) / 2 + (high - low) / 2 * action.astype(np.float64), low, high)
    return scaled


def _resolve(task: str) -> tuple[type[Task], str]:
    """Return the family and task name for `family:name`, a family such as `toy`, or a DMControl task."""
    family, colon, name = task.partition(":")
    try:
        # Gymnasium's names end with a version.
        if nearest(family, FAMILIES.names()) is None and re.search(r"-v\d+$", task):
            raise UnknownNameError("task", task, FAMILIES.names(), meant=f"gym:{task}")
        if colon:
            return FAMILIES.get(family), name
        if family in FAMILIES.names() and FAMILIES.get(family).bare:
            return FAMILIES.get(family), ""
        return FAMILIES.get("dmc"), task
    except ModuleNotFoundError as error:
        raise TaskError(not_installed(error)) from None
