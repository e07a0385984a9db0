"""The DeepMind Control suite: every task as `domain_task`."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pamd.envs.backend import import_simulator
from pamd.envs.camera import Camera
from pamd.envs.config import EnvConfig, Scene
from pamd.envs.task import DEFAULT_TIME_LIMIT, FAMILIES, Adjust, MaskedFrame, Outcome, Task, scale_action
from pamd.errors import ConfigError, TaskError, UnknownNameError

ACTION_REPEATS: dict[str, int] = {
    "cartpole_swingup": 4,
    "cheetah_run": 4,
    "finger_spin": 2,
    "hopper_hop": 4,
    "acrobot_swingup": 4,
    "point_mass_easy": 2,
    "walker_walk": 2,
    "walker_run": 2,
}
"""The values of tab:action-repeat. The two columns of the table agree if both have an entry."""

OTHER_ACTION_REPEAT = 2
"""The value for tasks that are not in the table. It is the smaller of the two values in the table."""

_TASK_FUNCTION = re.compile(r"^@SUITE\.add\([^)]*\)\s*def (\w+)\(", re.MULTILINE)


def suite_tasks() -> dict[str, tuple[str, str]]:
    """Return every `domain_task` of the installed suite, with its domain and task."""
    suite = import_simulator("dm_control.suite")
    # Both parts may contain underscores (ball_in_cup, swingup_sparse), so a name cannot be split at an underscore.
    return {f"{domain}_{task}": (domain, task) for domain, task in suite.ALL_TASKS}


@functools.cache
def task_names() -> frozenset[str]:
    """Return the keys of `suite_tasks`, read from the suite's source; empty if dm_control is not installed.

    Importing the suite takes half a second and starts EGL, which is too much for checking a name.
    """
    spec = importlib.util.find_spec("dm_control")
    folders = [Path(folder) / "suite" for folder in (spec.submodule_search_locations or ())] if spec else []
    files = [path for folder in folders for path in folder.glob("*.py")]
    return frozenset(f"{path.stem}_{task}" for path in files for task in _TASK_FUNCTION.findall(path.read_text()))


@contextlib.contextmanager
def _without_notices() -> Iterator[None]:
    """Hide MuJoCo's warning about a deprecated attribute in the suite's models, which users cannot fix."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@FAMILIES.register("dmc")
class DMControl(Task):
    """One task of the suite."""

    scenes: ClassVar[tuple[Scene, ...]] = ("stock", "released-dbc")

    def __init__(self, name: str, config: EnvConfig) -> None:
        tasks = suite_tasks()
        _check_known(name, tasks)
        self._name, self._domain, self._scene = name, tasks[name][0], config.scene
        self._recolored: Any = None
        # lqr samples its springs when it is built. With a fixed seed, the name determines the task.
        kwargs: dict[str, Any] = {"random": 0}
        if config.time_limit is not None:
            kwargs["time_limit"] = float("inf")  # The config's limit may be longer.
        suite = import_simulator("dm_control.suite")
        with _without_notices():
            self._env = suite.load(*tasks[name], task_kwargs=kwargs)
        # dm_control observes the state after every frame, for 7 to 38% of the frame's time. Only `state` needs it.
        self._observe = self._env.task.get_observation
        self._env.task.get_observation = lambda physics: {}
        self._model()  # Recolor the model now, so that dm_control's own images also have these colors.
        self._physics_error = import_simulator("dm_control.rl.control").PhysicsError
        cameras = self._env.physics.model.ncam
        if config.camera >= cameras:
            raise ConfigError(f"{config.what}: camera must be between -1 and {cameras - 1}, got {config.camera}")
        spec = self._env.action_spec()
        self._low, self._high = spec.minimum, spec.maximum
        self.action_size = int(np.prod(spec.shape))
        self.frame_rate = 1.0 / self._env.control_timestep()
        # The suite sets no limit for lqr, and 1000 frames for all other tasks.
        self.time_limit = DEFAULT_TIME_LIMIT if name.startswith("lqr_") else None
        self._camera = Camera(config.camera, config.render == "fast", config.replaces_floor)

    @property
    def physics(self) -> Any:
        """dm_control's physics, for diagnostics that need the true state."""
        return self._env.physics

    def state(self) -> NDArray[np.float64]:
        """Return the suite's own observation of the current state, flattened to [n]."""
        observed = self._observe(self._env.physics)
        return np.concatenate([np.ravel(part) for part in observed.values()]).astype(np.float64)

    def begin(self, seed: int) -> None:
        self._env.task.random.seed(seed)
        self._env.reset()

    def advance(self, action: NDArray[np.float32]) -> Outcome:
        try:
            step = self._env.step(scale_action(action, self._low, self._high))
        except self._physics_error as error:
            raise TaskError(f"{self._name}: the simulation diverged: {error}") from error
        # dm_control ends an episode at the time limit with discount 1.
        over = bool(step.last())
        terminated = over and step.discount == 0.0
        return Outcome(float(step.reward), terminated, over and not terminated)

    def draw(self, size: int) -> NDArray[np.uint8]:
        return self._camera.draw(self._model(), self._env.physics.data.ptr, size)

    def draw_masked(self, size: int, adjust: Adjust | None = None, *, foreground_only: bool = False) -> MaskedFrame:
        data = self._env.physics.data.ptr
        return self._camera.draw_masked(self._model(), data, size, adjust, foreground_only=foreground_only)

    def _model(self) -> Any:
        """Return the mujoco.MjModel with the colors of the scene. Tasks may recompile it, so it is not cached."""
        model = self._env.physics.model.ptr
        if self._scene == "released-dbc" and model is not self._recolored:
            recolor(model, self._domain)
            self._recolored = model
        return model

    def close(self) -> None:
        self._camera.close()
        # Some tasks (quadruped_escape) open dm_control's own OpenGL context.
        self._env.physics.free()

    @classmethod
    def tasks(cls) -> Sequence[str]:
        return tuple(suite_tasks())

    @classmethod
    def default_action_repeat(cls, name: str) -> int:
        return ACTION_REPEATS.get(name, OTHER_ACTION_REPEAT)

    @classmethod
    def check_name(cls, name: str) -> None:
        if names := task_names():
            _check_known(name, names)


def _check_known(name: str, names: Collection[str]) -> None:
    if name not in names:
        bare = [family for family in FAMILIES.names() if FAMILIES.get(family).bare]
        raise UnknownNameError("task", name, [*names, *bare], command="pamd list tasks")


# -- The scene of the released DBC code --------------------------------------------------------------------------------
# That code uses a modified suite. Its colors are applied to the loaded model before it is drawn.


class _Floor(NamedTuple):
    """The RGB colors of the checkered texture "grid": its two kinds of squares, and its edge."""

    dark: tuple[int, int, int]
    light: tuple[int, int, int]
    edge: tuple[int, int, int]


_STOCK_DARK = (25, 51, 76)
"""The color of the dark squares of the stock floor."""
_GRAY_FLOOR = _Floor((25, 25, 25), (51, 51, 51), (25, 25, 25))
_BLUE_FLOOR = _Floor((25, 25, 102), (51, 51, 204), (25, 25, 102))
_GRAY_FLOORS = ("cheetah", "hopper", "walker")
"""The domains whose floor is gray. All others have the blue floor, and another color of the material "decoration"."""
_DECORATION = (0.7, 0.5, 0.3)
_MARK = 255
"""The channel value of the marks in the stock sky. Nothing else there is pure white."""


def recolor(model: Any, domain: str) -> None:
    """Apply the colors of the released DBC code to mujoco.MjModel `model`. Call this before the first image."""
    mujoco = import_simulator("mujoco")
    for texture in range(model.ntex):
        if model.tex_type[texture] == mujoco.mjtTexture.mjTEXTURE_SKYBOX:
            sky = texels(model, texture)
            sky[(sky == _MARK).all(-1)] = 0
        elif model.texture(texture).name == "grid":
            _recolor_floor(texels(model, texture), _GRAY_FLOOR if domain in _GRAY_FLOORS else _BLUE_FLOOR)
    if domain not in _GRAY_FLOORS:
        for material in range(model.nmat):
            if model.material(material).name == "decoration":
                model.mat_rgba[material, :3] = _DECORATION


def _recolor_floor(grid: NDArray[np.uint8], floor: _Floor) -> None:
    """Change the stock colors of the texture `grid` [H, W, 3] in place."""
    grid[:] = np.where((grid == _STOCK_DARK).all(-1, keepdims=True), floor.dark, floor.light)
    # The stock edge has the color of the light squares, so it is known only by its place.
    grid[[0, -1]] = floor.edge
    grid[:, [0, -1]] = floor.edge


def texels(model: Any, texture: int) -> NDArray[np.uint8]:
    """Return a view [H, W, 3] of texture number `texture`. Writing to it changes the model."""
    height, width, channels = model.tex_height[texture], model.tex_width[texture], model.tex_nchannel[texture]
    start = model.tex_adr[texture]
    view: NDArray[np.uint8] = model.tex_data[start : start + height * width * channels]
    return view.reshape(height, width, channels)
