"""The tasks, target returns, settings and methods of the learning benchmark."""

from __future__ import annotations

from typing import Any

from pamd.configuration import configure
from pamd.errors import UnknownNameError
from pamd.training import Runtime, TrainConfig

__all__ = ["METHODS", "SEEDS", "SETTINGS", "TASKS", "check_names", "make_config"]

TASKS: dict[str, float] = {
    "cartpole_swingup": 350.0,
    "reacher_easy": 400.0,
    "finger_spin": 400.0,
    "walker_walk": 400.0,
}
"""The target returns: at least 40% of the best of DrQ-v2, DreamerV3, TD-MPC2 and MR.Q at a million frames."""

METHODS = ("sac", "dbc-det+pamd", "simsr+pamd")
SEEDS = (0, 1, 2)

SETTINGS: dict[str, dict[str, Any]] = {
    "cpu-0.2": {
        "scale": "paper",
        "schedule": "joint",
        "render": "fast",
        "settings": ("env.size=48", "encoder.strides=[3,2,1,1]", "learner.batch=64"),
    },
    "cpu": {"scale": "cpu"},
}
"""Options of `configure`. "cpu-0.2" is the scale `cpu` of version 0.2.0; "cpu" is the current one."""

_COMMON: dict[str, Any] = {
    "decisions": 100_000,
    "evaluate_every": 1_000,
    "evaluate_episodes": 5,
    "checkpoint_every": 5_000,
    "log_every": 500,
}
"""Options shared by all settings. Every evaluation must have a timing row."""


def make_config(task: str, setting: str, method: str, seed: int) -> TrainConfig:
    """Return the config of one run with one thread and no video. It ends at the time limit or the target return."""
    runtime = Runtime(device="cpu", threads=1, video="off", tensorboard=False)
    return configure(task, method, seed=seed, runtime=runtime, **_COMMON, **SETTINGS[setting])


def check_names(tasks: tuple[str, ...], settings: tuple[str, ...]) -> None:
    """Raise UnknownNameError if a task has no target return or a setting is unknown."""
    for task in tasks:
        if task not in TASKS:
            raise UnknownNameError("task of bench learning", task, TASKS)
    for setting in settings:
        if setting not in SETTINGS:
            raise UnknownNameError("setting of bench learning", setting, SETTINGS)
