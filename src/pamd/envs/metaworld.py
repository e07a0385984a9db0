"""Meta-World: every v3 task as `metaworld:reach-v3`, and `state:metaworld:reach-v3` for states."""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.envs.backend import import_simulator
from pamd.envs.camera import Camera
from pamd.envs.config import EnvConfig
from pamd.envs.task import FAMILIES, Adjust, MaskedFrame, Outcome, Task
from pamd.errors import ConfigError, TaskError, UnknownNameError, install_command

CAMERA = "corner2"
CAMERA_POSITION = (0.75, 0.075, 0.7)
"""The view of the literature: the package's camera `corner2`, moved nearer to the table."""

EPISODE_FRAMES = 500
ACTION_REPEAT = 2

_WELD = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 5.0)
"""The constraint that ties the hand to the position that actions move, as metaworld sets it."""
_NAME = re.compile(r'^\s*"([\w-]+-v3)":\s*envs\.', re.MULTILINE)


@functools.cache
def task_names() -> tuple[str, ...]:
    """Return every v3 task, read from the package's source; empty if metaworld is not installed.

    Importing the package takes a second, which is too much for checking a name.
    """
    spec = importlib.util.find_spec("metaworld")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    files = [path for path in (Path(folder) / "env_dict.py" for folder in folders) if path.is_file()]
    return tuple(sorted({name for path in files for name in _NAME.findall(path.read_text())}))


@FAMILIES.register("metaworld")
class MetaWorld(Task):
    """A Meta-World task. Object and goal positions are new in every episode. An episode has 500 frames.

    `info["success"]` is the task's own criterion. Camera 0 is the view of the literature: `corner2` at (0.75, 0.075,
    0.7). Cameras 1 and above are the others of the model, and -1 is MuJoCo's free camera. Images show the goal only if
    the task's model draws it. States include it.
    """

    action_size = 4
    time_limit = EPISODE_FRAMES

    def __init__(self, name: str, config: EnvConfig) -> None:
        self.check_name(name)
        environments = import_simulator("metaworld.env_dict").ALL_V3_ENVIRONMENTS
        if name not in environments:
            raise _unknown(name)
        self._env = _seedable(environments[name])()
        self.frame_rate = 1.0 / self._env.dt
        model = self._env.model
        view = model.camera(CAMERA).id
        model.cam_pos[view] = CAMERA_POSITION
        cameras = [view, *(number for number in range(model.ncam) if number != view)]
        if config.camera >= len(cameras):
            raise ConfigError(f"{config.what}: camera must be between -1 and {len(cameras) - 1}, got {config.camera}")
        number = cameras[config.camera] if config.camera >= 0 else -1
        self._camera = Camera(number, config.render == "fast", config.replaces_floor)
        self._observed: NDArray[np.float64] = np.zeros(0)
        self.begin(0)

    def state(self) -> NDArray[np.float64]:
        """Return the package's own observation of the current state, [39]: this frame, the previous one, the goal."""
        return self._observed

    def begin(self, seed: int) -> None:
        self._env.seed(seed)
        self._observed, _ = self._env.reset()

    def advance(self, action: NDArray[np.float32]) -> Outcome:
        self._observed, reward, terminated, truncated, info = self._env.step(action)
        return Outcome(float(reward), bool(terminated), bool(truncated), info)

    def draw(self, size: int) -> NDArray[np.uint8]:
        return self._camera.draw(self._env.model, self._env.data, size)

    def draw_masked(self, size: int, adjust: Adjust | None = None, *, foreground_only: bool = False) -> MaskedFrame:
        return self._camera.draw_masked(self._env.model, self._env.data, size, adjust, foreground_only=foreground_only)

    def close(self) -> None:
        self._camera.close()
        self._env.close()

    @classmethod
    def tasks(cls) -> Sequence[str]:
        return tuple(f"metaworld:{name}" for name in task_names())

    @classmethod
    def default_action_repeat(cls, name: str) -> int:
        return ACTION_REPEAT

    @classmethod
    def check_name(cls, name: str) -> None:
        if not (names := task_names()):
            raise TaskError(f"metaworld is not installed: {install_command('metaworld')}")
        if name not in names:
            raise _unknown(name)


def _unknown(name: str) -> UnknownNameError:
    return UnknownNameError("task", f"metaworld:{name}", MetaWorld.tasks(), command="pamd list tasks")


def _seedable(environment: type[Any]) -> type[Any]:
    """Return a subclass of metaworld's `environment` that also runs on newer mujoco. `seed` determines its episodes."""
    mujoco = import_simulator("mujoco")

    class Seedable(environment):  # type: ignore[misc]
        max_path_length = sys.maxsize  # Our own time limit ends an episode.

        def __init__(self) -> None:
            super().__init__()
            # Without these, positions come from NumPy's global state or are the same in all episodes, and the goal is
            # missing in states. `set_task` sets them for one fixed task instead.
            self._freeze_rand_vec, self.seeded_rand_vec, self._set_task_called = False, True, True
            self._partially_observable = False
            del self.sawyer_observation_space  # It was cached for states without a goal.

        def reset_mocap_welds(self) -> None:
            # metaworld 3.1.1 assigns 11 values to a whole row. Rows have 11 values in mujoco 3.3, and 12 in 3.17.
            for row, kind in zip(self.model.eq_data, self.model.eq_type, strict=True):
                if self.model.nmocap and kind == mujoco.mjtEq.mjEQ_WELD:
                    row[: len(_WELD)] = _WELD

    return Seedable
