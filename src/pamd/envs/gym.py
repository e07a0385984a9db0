"""Gymnasium environments with continuous actions and `rgb_array` rendering, such as `gym:HalfCheetah-v5`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import DependencyNotInstalled, Error, UnregisteredEnv
from numpy.typing import NDArray

from pamd.envs.backend import choose_backend
from pamd.envs.config import EnvConfig
from pamd.envs.task import FAMILIES, Outcome, Task, scale_action
from pamd.errors import ConfigError, DtypeError, RenderError, ShapeError, TaskError, UnknownNameError

_DISCRETE = ("ALE", "MinAtar")
"""Namespaces of games with discrete actions only. Checking the name avoids importing their packages."""
_WITH_DQN = "discrete actions: use pamd.integrations.sb3 with DQN"


@FAMILIES.register("gym")
class Gymnasium(Task):
    """A Gymnasium environment with its `rgb_array` images as observations. `EnvConfig.options` are its options."""

    takes_options = True

    def __init__(self, name: str, config: EnvConfig) -> None:
        if config.camera != 0:
            raise ConfigError(f"{config.what}: camera must be 0 for Gymnasium tasks, got {config.camera}")
        self._what = config.what
        self._env = _make(name, config)
        space = self._env.action_space
        if not isinstance(space, gymnasium.spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            self._env.close()
            advice = f"; {_WITH_DQN}" if isinstance(space, gymnasium.spaces.Discrete) else ""
            raise TaskError(f"{self._what}: actions must be continuous (a Box of floats), got {space}{advice}")
        self._space = space
        if self._env.spec is not None and self._env.spec.max_episode_steps is not None:
            self.time_limit = None  # Gymnasium's own wrapper truncates.
        self.action_size = int(np.prod(space.shape))
        self.frame_rate = float(self._env.metadata.get("render_fps") or 30)
        # MuJoCo's viewer sets its camera once, from the first state that it draws. That state must be the same in every
        # process. Otherwise a resumed run would see its task from a different angle.
        self.begin(0)
        self.draw(config.size)

    def begin(self, seed: int) -> None:
        self._env.reset(seed=seed)

    def advance(self, action: NDArray[np.float32]) -> Outcome:
        scaled = scale_action(action, self._space.low.reshape(-1), self._space.high.reshape(-1))
        # A float32 Box may round a bound outward, so the action is clipped in the dtype of the Box.
        native = np.clip(scaled.reshape(self._space.shape).astype(self._space.dtype), self._space.low, self._space.high)
        _, reward, terminated, truncated, info = self._env.step(native)
        return Outcome(float(reward), bool(terminated), bool(truncated), info)

    def draw(self, size: int) -> NDArray[np.uint8]:
        try:
            picture: Any = self._env.render()
        except DependencyNotInstalled as error:
            raise TaskError(f"{self._what} requires a package that is not installed: {error}") from None
        except Exception as error:  # Environments raise errors of many types.
            raise RenderError(f"{self._what}: its render() failed: {type(error).__name__}: {error}") from error
        if not isinstance(picture, np.ndarray) or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
            got = list(picture.shape) if isinstance(picture, np.ndarray) else type(picture).__name__
            raise ShapeError(f"{self._what}: render() must return an array [H, W, 3], at least 1 x 1, got {got}")
        if picture.dtype != np.uint8:
            # A conversion would turn floats in [0, 1] and NaN into a black image.
            raise DtypeError(f"{self._what}: render() must return uint8 from 0 to 255, got {picture.dtype}")
        return resize(picture, size)

    def close(self) -> None:
        self._env.close()

    @classmethod
    def module(cls, name: str) -> str | None:
        module, colon, _ = name.rpartition(":")
        return module if colon else None

    @classmethod
    def check_name(cls, name: str) -> None:
        if name.partition("/")[0] in _DISCRETE:
            raise TaskError(f"environment 'gym:{name}': {_WITH_DQN}")
        # `module:name` registers itself on import. A name without a version selects the newest version.
        known = (
            ":" in name or name in gymnasium.registry or any(key.startswith(f"{name}-v") for key in gymnasium.registry)
        )
        if not known:
            raise _unknown(name)


def resize(picture: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Resize an image [H, W, 3] to [size, size, 3] by area averaging."""
    height, width, channels = picture.shape
    if (height, width) == (size, size):
        return picture.copy()
    rows = _overlap(height, size) @ picture.reshape(height, width * channels).astype(np.float32)
    columns = _overlap(width, size) @ rows.reshape(size, width, channels)
    resized: NDArray[np.uint8] = np.rint(columns).clip(0, 255).astype(np.uint8)
    return resized


def _overlap(before: int, after: int) -> NDArray[np.float32]:
    """Return the fraction [after, before] of each new pixel that each old pixel covers. Rows sum to 1."""
    step = before / after
    start = np.arange(after)[:, None] * step
    old = np.arange(before)[None, :]
    shared = np.minimum(old + 1, start + step) - np.maximum(old, start)
    weights: NDArray[np.float64] = np.clip(shared, 0.0, None) / step
    return weights.astype(np.float32)


def _unknown(name: str) -> UnknownNameError:
    module, _, id_ = name.rpartition(":")
    advice = "" if module else f"If it is your own: gym:MODULE:{name}, where importing MODULE registers it."
    return UnknownNameError("Gymnasium environment", id_, gymnasium.registry, advice=advice)


_OWN_OPTIONS = {"id": "env.task", "render_mode": "images", "max_episode_steps": "env.time_limit"}
"""Arguments of `gymnasium.make` that are no options, and what sets them."""


def _make(name: str, config: EnvConfig) -> gymnasium.Env[Any, Any]:
    choose_backend()  # Gymnasium's MuJoCo tasks read the same environment variables.
    for option, by in _OWN_OPTIONS.items():
        if option in config.options:
            raise ConfigError(f"{config.what}: env.options must not have {option}, which {by} sets")
    # -1 removes Gymnasium's own time limit, because the config's limit may be longer.
    fixed = {"render_mode": "rgb_array", "max_episode_steps": None if config.time_limit is None else -1}
    options: dict[str, Any] = {"disable_env_checker": True, **config.options, **fixed}
    try:
        return gymnasium.make(name, **options)
    except UnregisteredEnv:
        raise _unknown(name) from None
    except (Error, ImportError, TypeError, ValueError) as error:
        advice = ""
        if isinstance(error, ModuleNotFoundError) and (module := name.rpartition(":")[0]):
            advice = " To fix it, install the module, or add its folder to PYTHONPATH."
            if module.endswith(".py"):
                advice = f" A module is named without .py: gym:{module[:-3]}:{name.rpartition(':')[2]}."
        elif isinstance(error, TypeError) and not config.options:
            advice = (
                ". pamd learns from images, so the constructor must take render_mode='rgb_array'. To learn from"
                " vectors, use pamd.integrations.sb3 or pamd.Representation."
            )
        raise TaskError(f"{config.what} cannot be built: {type(error).__name__}: {error}{advice}") from error
