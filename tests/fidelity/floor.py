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
    """The share of the floor's pixels with B > G and B > R, over all states together."""

    whole: float
    """Of all its pixels."""
    inside: float
    """Of the pixels whose four neighbors show the floor as well. The others may show floor and sky at once."""


def shares(task: str, scene: Any, render: Any, states: int) -> Shares:
    """Look at the floor in the first picture of `states` episodes."""
    env = pamd.make_env(task, size=SIZE, scene=scene, render=render)
    taken, seen = np.zeros(2), np.zeros(2)
    for _ in range(states):
        red, green, blue = env.reset()[1]["frame"]
        masks = np.stack([floor := _floor(env), _inside(floor)])
        seen += masks.sum((1, 2))
        taken += (masks & (blue > green) & (blue > red)).sum((1, 2))
    env.close()
    return Shares(*(taken / seen).tolist())


def _floor(env: Any) -> NDArray[np.bool_]:
    """[H, W]: the floor by a segmentation pass of dm_control's own renderer. It is geom (type 5) number 0."""
    number, kind = np.moveaxis(env.unwrapped.task.physics.render(SIZE, SIZE, camera_id=0, segmentation=True), -1, 0)
    return np.asarray((number == 0) & (kind == 5))


def _inside(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    wide = np.pad(mask, 1, mode="edge")
    return mask & wide[:-2, 1:-1] & wide[2:, 1:-1] & wide[1:-1, :-2] & wide[1:-1, 2:]
