"""Camera motion and changes of the agent's colors. They affect only the rendered scene, not the simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pamd.envs.distractors.config import DistractorConfig

__all__ = ["View"]

PERIODS = (30.0, 120.0)
"""The range of the camera's motion periods, in decisions."""
MATERIALS = 256

_GEOM = 5
"""The value of mujoco.mjtObj.mjOBJ_GEOM. Copying it avoids an import of mujoco."""

Vector = list[float]


class View:
    """The camera and colors of one episode, determined by the episode's random generator and the decision."""

    def __init__(self, config: DistractorConfig, rng: np.random.Generator) -> None:
        self._reach = math.radians(config.jitter)
        self._phases: Vector = rng.uniform(0, 2 * np.pi, 3).tolist()
        self._speeds: Vector = (2 * np.pi / rng.uniform(*PERIODS, 3)).tolist()
        self._shift = config.agent_color * rng.uniform(-1, 1, (MATERIALS, 3))
        self._recolors = config.agent_color > 0
        self._fixed: list[bool] = []

    def adjust(self, time: int, model: Any, scene: Any) -> None:
        """Rotate the cameras and recolor the moving bodies of mujoco.MjvScene `scene` for decision `time`."""
        if self._reach:
            waves = zip(self._speeds, self._phases, strict=True)
            angles = [self._reach * math.sin(speed * time + phase) for speed, phase in waves]
            for camera in scene.camera:
                camera.forward, camera.up = rotate_axes(camera.forward.tolist(), camera.up.tolist(), angles)
        if self._recolors:
            if not self._fixed:
                self._fixed = [body == 0 for body in model.geom_bodyid.tolist()]
            for geom in scene.geoms[: scene.ngeom]:
                # Objects other than geoms (sites, tendons) keep their colors, because some mark the goal of the task.
                if geom.objtype == _GEOM and not self._fixed[geom.objid]:
                    # Colors change per material, so that a body of one color keeps one color. The last entry is for
                    # geoms without a material (-1).
                    shifted = geom.rgba[:3] + self._shift[geom.matid]
                    geom.rgba[:3] = np.minimum(np.maximum(shifted, 0.0), 1.0)


def rotate_axes(forward: Vector, up: Vector, angles: Vector) -> tuple[Vector, Vector]:
    """Rotate a camera's axes by yaw, pitch and roll."""
    (a, b, c), (x, y, z) = forward, up
    right = [b * z - c * y, c * x - a * z, a * y - b * x]
    yaw, pitch, roll = angles
    forward, right = _rotate(forward, right, yaw)
    forward, up = _rotate(forward, up, pitch)
    up, right = _rotate(up, right, roll)
    return forward, up


def _rotate(one: Vector, other: Vector, angle: float) -> tuple[Vector, Vector]:
    cosine, sine = math.cos(angle), math.sin(angle)
    pairs = list(zip(one, other, strict=True))
    return [cosine * a + sine * b for a, b in pairs], [cosine * b - sine * a for a, b in pairs]
