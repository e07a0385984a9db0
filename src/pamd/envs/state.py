"""Tasks observed as state vectors, with or without noise: `state:cheetah_run`, `state:metaworld:reach-v3`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pamd.envs.config import EnvConfig, NoiseConfig
from pamd.envs.dmc import DMControl, task_names
from pamd.envs.metaworld import MetaWorld
from pamd.envs.task import FAMILIES, Adjust, MaskedFrame, Outcome, Task
from pamd.errors import UnknownNameError

# Separates the random streams of the noise and the simulator.
_NOISE = 0x5EED
_METAWORLD = "metaworld:"


@FAMILIES.register("state")
class States(Task):
    """A DMControl or Meta-World task with state observations, float32 [n]: its own observation, followed by noise.

    Training on states renders no images, so a run takes minutes. `--noise projected` adds noise coordinates and mixes
    them with the state by a fixed random matrix. `render()` draws the task as usual.
    """

    states = True

    def __init__(self, name: str, config: EnvConfig) -> None:
        family, inner = _observed(name)
        self._task = family(inner, config)
        self.action_size, self.frame_rate = self._task.action_size, self._task.frame_rate
        self.time_limit = self._task.time_limit
        state_dim = len(self._task.state())
        self._noise = None if config.noise is None else StateNoise(config.noise, state_dim)
        self.observation_size = state_dim if self._noise is None else self._noise.size
        self._seed, self._age = 0, 0

    def begin(self, seed: int) -> None:
        self._task.begin(seed)
        self._seed, self._age = seed, 0

    def advance(self, action: NDArray[np.float32]) -> Outcome:
        self._age += 1
        return self._task.advance(action)

    def observe(self, size: int, draw: int = 0) -> NDArray[np.float32]:
        state = self._task.state()
        if self._noise is not None:
            # The noise is seeded by episode and frame, so that observing a frame twice gives the same result.
            state = self._noise(state, np.random.default_rng([_NOISE, self._seed, self._age, draw]))
        return state.astype(np.float32)

    def draw(self, size: int) -> NDArray[np.uint8]:
        return self._task.draw(size)

    def draw_masked(self, size: int, adjust: Adjust | None = None, *, foreground_only: bool = False) -> MaskedFrame:
        return self._task.draw_masked(size, adjust, foreground_only=foreground_only)

    def close(self) -> None:
        self._task.close()

    @classmethod
    def default_action_repeat(cls, name: str) -> int:
        family, inner = _observed(name)
        return family.default_action_repeat(inner)

    @classmethod
    def check_name(cls, name: str) -> None:
        if name.startswith(_METAWORLD):
            MetaWorld.check_name(name.removeprefix(_METAWORLD))
        elif (names := task_names()) and name not in names:
            choices = [f"state:{task}" for task in names]
            raise UnknownNameError("task", f"state:{name}", choices, command="pamd list tasks")


def _observed(name: str) -> tuple[type[DMControl | MetaWorld], str]:
    """Return the family and the name in it of the task that `state:name` observes."""
    if name.startswith(_METAWORLD):
        return MetaWorld, name.removeprefix(_METAWORLD)
    return DMControl, name


@dataclass(frozen=True)
class StateNoise:
    """The noise of `config` for states of `state_size` numbers."""

    config: NoiseConfig
    state_size: int

    @property
    def size(self) -> int:
        """The dimension n of an observation."""
        return self.state_size + self.config.coordinates

    @cached_property
    def matrix(self) -> NDArray[np.float64] | None:
        """A matrix [n, n] with entries N(0, 1/n), which preserves the expected squared norm of an observation."""
        if self.config.projection is None:
            return None
        draws = np.random.default_rng([self.config.projection, self.size])
        entries: NDArray[np.float64] = draws.standard_normal((self.size, self.size))
        scaled: NDArray[np.float64] = entries / self.size**0.5
        return scaled

    def __call__(self, state: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
        """Return the observation [n] for the state [state_size]."""
        drawn = random.normal(self.config.mean, self.config.deviation, self.config.coordinates)
        both = np.concatenate([state, drawn])
        return both if self.matrix is None else self.matrix @ both
