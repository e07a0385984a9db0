"""A camera that sways and an agent that changes its colours: in the drawn scene only, never in the simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.envs.distractors.config import DistractorConfig

__all__ = ["View"]

PERIODS = (30.0, 120.0)
"""Decisions that the camera takes to sway to and fro."""
MATERIALS = 256

Vector = NDArray[np.float64]


class View:
    """How one episode is looked at; a function of the episode's generator and of the decision."""

    def __init__(self, config: DistractorConfig, rng: np.random.Generator) -> None:
        self._reach = np.deg2rad(config.jitter)
        self._phases = rng.uniform(0, 2 * np.pi, 3)
        self._speeds = 2 * np.pi / rng.uniform(*PERIODS, 3)
        self._shift = config.agent_color * rng.uniform(-1, 1, (MATERIALS, 3))
        self._recolours = config.agent_color > 0

    def adjust(self, time: int, model: Any, scene: Any) -> None:
        """Turn the cameras and recolour the moving bodies of mujoco.MjvScene `scene` for decision `time`."""
        if self._reach:
            angles = self._reach * np.sin(self._speeds * time + self._phases)
            for camera in scene.camera:
                camera.forward, camera.up = turned(np.array(camera.forward), np.array(camera.up), angles)
        if self._recolours:
            # By material, so that what has one colour keeps having one; -1, no material, is the last.
            fixed = np.asarray(model.geom_bodyid) == 0
            for geom in scene.geoms[: scene.ngeom]:
                # Objects other than geoms (sites, tendons) keep their colours: some are signs of the task's goal.
                if geom.objtype == _GEOM and not fixed[geom.objid]:
                    geom.rgba[:3] = np.clip(geom.rgba[:3] + self._shift[geom.matid % MATERIALS], 0, 1)


_GEOM = 5
"""mujoco.mjtObj.mjOBJ_GEOM, without importing mujoco here."""


def turned(forward: Vector, up: Vector, angles: Vector) -> tuple[Vector, Vector]:
    """A camera's axes after turning by angles [3]: to the side, upwards, about the line of sight."""
    right = np.cross(forward, up)
    yaw, pitch, roll = angles
    forward, right = _spun(forward, right, yaw)
    forward, up = _spun(forward, up, pitch)
    up, right = _spun(up, right, roll)
    return forward, up


def _spun(one: Vector, other: Vector, angle: float) -> tuple[Vector, Vector]:
    return np.cos(angle) * one + np.sin(angle) * other, np.cos(angle) * other - np.sin(angle) * one
