"""Any Gymnasium environment with continuous actions that can draw itself: `gym:HalfCheetah-v5`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import DependencyNotInstalled, Error, UnregisteredEnv
from numpy.typing import NDArray

from pamd.envs.backend import choose_backend
from pamd.envs.config import EnvConfig
from pamd.envs.task import FAMILIES, Outcome, Task, scale_action
from pamd.errors import ConfigError, RenderError, ShapeError, TaskError, UnknownNameError

__all__ = ["Gymnasium", "resize"]


@FAMILIES.register("gym")
class Gymnasium(Task):
    """One Gymnasium environment, seen through its own `rgb_array` pictures."""

    def __init__(self, name: str, config: EnvConfig) -> None:
        if config.camera != 0:
            raise ConfigError(f"{config.what}: camera must be 0 (Gymnasium tasks have their own), got {config.camera}")
        self._what = config.what
        self._env = _make(name, config)
        space = self._env.action_space
        if not isinstance(space, gymnasium.spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            self._env.close()
            raise TaskError(f"{self._what}: actions must be continuous (a Box of floats), got {space}")
        self._space = space
        self.action_size = int(np.prod(space.shape))
        self.frame_rate = float(self._env.metadata.get("render_fps") or 30)
        # MuJoCo's viewer aims its camera, for good, at the state that it is first asked to draw. Let that be the same
        # one in every process, or a resumed run would look at its task from somewhere else.
        self.begin(0)
        self.draw(config.size)

    def begin(self, seed: int) -> None:
        self._env.reset(seed=seed)

    def advance(self, action: NDArray[np.float32]) -> Outcome:
        scaled = scale_action(action, self._space.low.reshape(-1), self._space.high.reshape(-1))
        # A Box of float32 may round a bound outwards; the clip is in its own type.
        own = np.clip(scaled.reshape(self._space.shape).astype(self._space.dtype), self._space.low, self._space.high)
        _, reward, terminated, truncated, info = self._env.step(own)
        return Outcome(float(reward), bool(terminated), bool(truncated), info)

    def draw(self, size: int) -> NDArray[np.uint8]:
        try:
            picture: Any = self._env.render()
        except DependencyNotInstalled as error:
            raise TaskError(f"{self._what} needs a package that is not here: {error}") from None
        except Exception as error:  # Each environment draws in its own way and fails in its own way.
            raise RenderError(f"{self._what}: its render() failed: {type(error).__name__}: {error}") from error
        if not isinstance(picture, np.ndarray) or picture.ndim != 3 or picture.shape[2] != 3:
            got = list(picture.shape) if isinstance(picture, np.ndarray) else type(picture).__name__
            raise ShapeError(f"{self._what}: render() must give an array [H, W, 3], got {got}")
        return resize(picture, size)

    def close(self) -> None:
        self._env.close()


def resize(picture: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Picture [H, W, 3] to [size, size, 3]: each new pixel is the mean of the area that it covers."""
    height, width, channels = picture.shape
    if (height, width) == (size, size):
        return picture.copy()
    rows = _overlap(height, size) @ picture.reshape(height, width * channels).astype(np.float32)
    columns = _overlap(width, size) @ rows.reshape(size, width, channels)
    resized: NDArray[np.uint8] = np.rint(columns).clip(0, 255).astype(np.uint8)
    return resized


def _overlap(before: int, after: int) -> NDArray[np.float32]:
    """[after, before]: how much of each new pixel lies in each old one. Rows sum to one."""
    step = before / after
    start = np.arange(after)[:, None] * step
    old = np.arange(before)[None, :]
    shared = np.minimum(old + 1, start + step) - np.maximum(old, start)
    weights: NDArray[np.float64] = np.clip(shared, 0.0, None) / step
    return weights.astype(np.float32)


def _make(name: str, config: EnvConfig) -> gymnasium.Env[Any, Any]:
    choose_backend()  # Gymnasium's MuJoCo tasks look at the same variables.
    # -1 takes Gymnasium's own clock away: the config's limit may be the longer one.
    limit = None if config.time_limit is None else -1
    try:
        return gymnasium.make(name, render_mode="rgb_array", max_episode_steps=limit, disable_env_checker=True)
    except UnregisteredEnv:
        raise UnknownNameError("Gymnasium environment", name, gymnasium.registry) from None
    except (Error, ImportError, TypeError, ValueError) as error:
        raise TaskError(f"{config.what} cannot be built: {type(error).__name__}: {error}") from error
