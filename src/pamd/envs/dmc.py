"""The DeepMind Control suite: every task as `domain_task`."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pamd.envs.backend import import_simulator
from pamd.envs.camera import Camera
from pamd.envs.config import EnvConfig, Scene
from pamd.envs.distractors.compose import to_gray
from pamd.envs.task import FAMILIES, Adjust, MaskedFrame, Outcome, Task, scale_action
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

_GRAY_FLOORS = ("cheetah", "hopper", "walker")
"""The domains whose floor is dark gray in the released DBC code. The others keep their floor."""
_MARK = 255
"""The channel value of the marks in the sky. Nothing else there is pure white."""

_UNLIMITED_FRAMES = 1000
"""The time limit of lqr, in frames. The suite sets no limit for lqr and this limit for all other tasks."""

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
        self._model()  # Recolor the model now, so that dm_control's own images also have these colors.
        self._physics_error = import_simulator("dm_control.rl.control").PhysicsError
        cameras = self._env.physics.model.ncam
        if config.camera >= cameras:
            raise ConfigError(f"{config.what}: camera must be between -1 and {cameras - 1}, got {config.camera}")
        spec = self._env.action_spec()
        self._low, self._high = spec.minimum, spec.maximum
        self.action_size = int(np.prod(spec.shape))
        self.frame_rate = 1.0 / self._env.control_timestep()
        self.time_limit = _UNLIMITED_FRAMES if name.startswith("lqr_") else None
        self._camera = Camera(config.camera, config.render == "fast")

    @property
    def physics(self) -> Any:
        """dm_control's physics, for diagnostics that need the true state."""
        return self._env.physics

    def state(self) -> NDArray[np.float64]:
        """Return the suite's own observation of the current state, flattened to [n]."""
        observed = self._env.task.get_observation(self._env.physics)
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
# That code uses a modified suite. Two of its changes are known: the floor of cheetah, hopper and walker is dark gray,
# and the marks in the sky are black. They are applied to the loaded model before it is drawn.


def recolor(model: Any, domain: str) -> None:
    """Apply the colors of the released DBC code to mujoco.MjModel `model`. Call this before the first image.

    Gray texels keep their original brightness.
    """
    mujoco = import_simulator("mujoco")
    for texture in range(model.ntex):
        if model.tex_type[texture] == mujoco.mjtTexture.mjTEXTURE_SKYBOX:
            sky = texels(model, texture)
            sky[(sky == _MARK).all(-1)] = 0
    if domain in _GRAY_FLOORS:
        for material in _floor_materials(mujoco, model):
            for texture in {int(number) for number in np.ravel(model.mat_texid[material]) if number >= 0}:
                floor = texels(model, texture)
                floor[:] = to_gray(floor)


def texels(model: Any, texture: int) -> NDArray[np.uint8]:
    """Return a view [H, W, 3] of texture number `texture`. Writing to it changes the model."""
    height, width, channels = model.tex_height[texture], model.tex_width[texture], model.tex_nchannel[texture]
    start = model.tex_adr[texture]
    view: NDArray[np.uint8] = model.tex_data[start : start + height * width * channels]
    return view.reshape(height, width, channels)


def _floor_materials(mujoco: Any, model: Any) -> set[int]:
    is_plane = model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
    return {int(material) for material in model.geom_matid[is_plane] if material >= 0}
