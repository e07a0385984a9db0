"""The DeepMind Control suite: every task as `domain_task`."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.envs.backend import import_simulator
from pamd.envs.camera import Camera
from pamd.envs.config import EnvConfig
from pamd.envs.task import FAMILIES, Adjust, Outcome, Shot, Task, scale_action
from pamd.errors import ConfigError, TaskError, UnknownNameError

__all__ = ["ACTION_REPEATS", "DMControl", "suite_tasks"]

ACTION_REPEATS: dict[str, dict[str, int]] = {
    "cartpole_swingup": {"bisimulation": 4},
    "cheetah_run": {"bisimulation": 4, "independent": 4},
    "finger_spin": {"bisimulation": 2},
    "hopper_hop": {"bisimulation": 4, "independent": 4},
    "acrobot_swingup": {"independent": 4},
    "point_mass_easy": {"independent": 2},
    "walker_walk": {"independent": 2},
    "walker_run": {"independent": 2},
}
"""tab:action-repeat. Where a family has no entry, the other one's holds; the two never differ."""

OTHER_ACTION_REPEAT = 2
"""For tasks outside the table: the smaller of its two values, so that no task is made coarser than the paper's."""

UNLIMITED_FRAMES = 1000
"""Where the suite sets no time limit (lqr): the length that all its other tasks have."""


def suite_tasks() -> dict[str, tuple[str, str]]:
    """Every `domain_task` of the installed suite, with its domain and task."""
    suite = import_simulator("dm_control.suite")
    # Both parts may hold underscores (ball_in_cup, swingup_sparse), so names are joined here and never split.
    return {f"{domain}_{task}": (domain, task) for domain, task in suite.ALL_TASKS}


@contextlib.contextmanager
def _without_notices() -> Iterator[None]:
    """Keep MuJoCo's notice about a deprecated attribute in the suite's own models from the user, who cannot mend it."""
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

    def __init__(self, name: str, config: EnvConfig) -> None:
        tasks = suite_tasks()
        if name not in tasks:
            raise UnknownNameError("task", name, [*tasks, *(key for key in FAMILIES.names() if FAMILIES.get(key).bare)])
        self._name = name
        # lqr draws its springs when it is built: always from seed 0, so that the name means one task.
        kwargs: dict[str, Any] = {"random": 0}
        if config.time_limit is not None:
            kwargs["time_limit"] = float("inf")  # The config's limit may be the longer one.
        suite = import_simulator("dm_control.suite")
        with _without_notices():
            self._env = suite.load(*tasks[name], task_kwargs=kwargs)
        self._physics_error = import_simulator("dm_control.rl.control").PhysicsError
        cameras = self._env.physics.model.ncam
        if config.camera >= cameras:
            raise ConfigError(f"{config.what}: camera must be -1 to {cameras - 1}, got {config.camera}")
        spec = self._env.action_spec()
        self._low, self._high = spec.minimum, spec.maximum
        self.action_size = int(np.prod(spec.shape))
        self.frame_rate = 1.0 / self._env.control_timestep()
        self.time_limit = UNLIMITED_FRAMES if name.startswith("lqr_") else None
        self._camera = Camera(config.camera, config.render == "fast")

    @property
    def physics(self) -> Any:
        """dm_control's physics, for diagnostics that need the true state."""
        return self._env.physics

    def begin(self, seed: int) -> None:
        self._env.task.random.seed(seed)
        self._env.reset()

    def advance(self, action: NDArray[np.float32]) -> Outcome:
        try:
            step = self._env.step(scale_action(action, self._low, self._high))
        except self._physics_error as error:
            raise TaskError(f"{self._name}: the simulation diverged: {error}") from error
        # At the time limit dm_control ends the episode with discount 1: the state has a future, only the clock has not.
        over = bool(step.last())
        terminated = over and step.discount == 0.0
        return Outcome(float(step.reward), terminated, over and not terminated)

    def draw(self, size: int) -> NDArray[np.uint8]:
        # The model in use is looked up anew each time: a task may recompile it between episodes.
        physics = self._env.physics
        return self._camera.draw(physics.model.ptr, physics.data.ptr, size)

    def shoot(self, size: int, adjust: Adjust | None = None, *, bare: bool = False) -> Shot:
        physics = self._env.physics
        return self._camera.shoot(physics.model.ptr, physics.data.ptr, size, adjust, bare=bare)

    def close(self) -> None:
        self._camera.close()
        # Some tasks (quadruped_escape) open a context of dm_control's own.
        self._env.physics.free()

    @classmethod
    def default_action_repeat(cls, name: str, family: str | None) -> int:
        row = ACTION_REPEATS.get(name)
        if row is None:
            return OTHER_ACTION_REPEAT
        return row[family] if family in row else next(iter(row.values()))
