"""Gymnasium integration. Importing this module registers every task as `pamd/NAME-v0` for `gymnasium.make`.

`gymnasium.make("pamd/cheetah_run-v0", size=64, frame_stack=1)` accepts the options of `pamd.make_env`. Without the
import, use `gymnasium.make("pamd.integrations.gymnasium:pamd/cheetah_run-v0")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pamd.envs import make_env
from pamd.envs.backend import import_simulator
from pamd.envs.dmc import task_names
from pamd.errors import ConfigError

if TYPE_CHECKING:
    from pamd.envs.wrappers import Episodes


def make_registered(task: str, render_mode: str | None = "rgb_array", **options: Any) -> Episodes:
    """Make the environment of a task for `gymnasium.make`. `options` are those of `pamd.make_env`."""
    if render_mode not in (None, "rgb_array"):
        raise ConfigError(f"environment {task!r}: render_mode must be 'rgb_array', got {render_mode!r}")
    return make_env(task, **options)


def register() -> None:
    """Register all DMControl tasks, `toy` and `toy_goal` under `pamd/`. Repeated calls have no effect."""
    gymnasium = import_simulator("gymnasium")
    tasks = {name: name for name in sorted(task_names())} | {"toy": "toy", "toy_goal": "toy:goal"}
    for name, task in tasks.items():
        id_ = f"pamd/{name}-v0"
        if id_ not in gymnasium.registry:
            gymnasium.register(id_, f"{__name__}:make_registered", kwargs={"task": task})


register()
