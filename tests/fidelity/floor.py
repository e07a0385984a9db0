"""What the released blue-pixel rule takes of the floor."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import pamd

__all__ = ["FLOORS", "Shares", "shares"]

FLOORS = ("cheetah_run", "hopper_hop", "walker_walk")
SIZE = 84


class Shares(NamedTuple):
    """Means over states of the share of the floor's pixels with B > G and B > R."""

    whole: float
    """Of all its pixels."""
    inside: float
    """Of the pixels whose four neighbors show the floor as well. The others may show floor and sky at once."""


def shares(task: str, scene: Any, render: Any, states: int) -> Shares:
    """Play `states` times five random decisions of the task and look at the floor after each."""
    env, rng = pamd.make_env(task, size=SIZE, scene=scene, render=render), np.random.default_rng(0)
    env.reset()
    found = []
    for _ in range(states):
        for _ in range(5):
            red, green, blue = env.step(rng.uniform(-1, 1, env.action_space.shape))[4]["frame"]
        floor, taken = _floor(env), (blue > green) & (blue > red)
        found.append((taken[floor].mean(), taken[_inside(floor)].mean()))
    env.close()
    return Shares(*np.mean(found, axis=0).tolist())


def _floor(env: Any) -> NDArray[np.bool_]:
    """[H, W]: the floor by a segmentation pass of dm_control's own renderer. It is geom (type 5) number 0."""
    number, kind = np.moveaxis(env.unwrapped.task.physics.render(SIZE, SIZE, camera_id=0, segmentation=True), -1, 0)
    return np.asarray((number == 0) & (kind == 5))


def _inside(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    wide = np.pad(mask, 1, mode="edge")
    return mask & wide[:-2, 1:-1] & wide[2:, 1:-1] & wide[1:-1, :-2] & wide[1:-1, 2:]
