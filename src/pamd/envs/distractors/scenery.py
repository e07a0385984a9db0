"""What a distractor shows as a function of (episode seed, episode number, decision): background, camera, colors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.envs.config import DistractorConfig
from pamd.envs.distractors.compose import hue_turn, to_gray, to_size, turn_hue

_Picture = NDArray[np.uint8]

_STREAM = 0xBACD
"""Separates the random streams of the background and the task, which have the same seed."""

_PERIODS = (30.0, 120.0)
"""The range of the camera's motion periods, in decisions."""
_MATERIALS = 256

_COLOR_STEP = 0.03
_POSE_STEP, _POSE_SPEED = 0.1, 0.4
"""Dynamic changes, in units of the scale: the deviation of a color's step, and the deviation of the change of the
camera's velocity and its maximum, per decision."""
_LOWEST = 0.1
"""The minimum height of a moved camera. Below the floor, it would show nothing."""

_GEOM = 5
"""The value of mujoco.mjtObj.mjOBJ_GEOM. Copying it avoids an import of mujoco."""

_Vector = list[float]


class Scenery:
    """The backgrounds of one side of the split. A frame does not depend on earlier episodes or decisions."""

    def __init__(self, config: DistractorConfig, clips: Sequence[_Picture], size: int, decisions: int) -> None:
        """Each of `clips` is [N, size, size, 3]. An episode of `decisions` decisions has one more frame."""
        self._config, self._clips, self._size = config, clips, size
        self._shown_per_episode = decisions + 1
        self._video = _join(clips, config.frames) if config.sequence == "continuous" else []

    def begin(self, seed: int, episode: int, run_seed: int = 0) -> None:
        """Start episode number `episode` with its `seed` (below 2**32). All episodes of a run share `run_seed`."""
        config, rng = self._config, np.random.default_rng([seed, _STREAM])
        self._seed = seed
        clip, start, direction, hue = rng.random(4)
        self._step = {"forward": 1, "backward": -1, "either": 1 if direction < 0.5 else -1}[config.playback]
        self._matrix = hue_turn(np.pi * config.hue * (2 * hue - 1)) if config.hue else None
        if config.sequence == "continuous":
            # Assume that every earlier episode had its full length, so that episodes are independent of each other.
            self._start = self._first(run_seed) + episode * self._shown_per_episode
        elif self._clips:
            self._clip = self._clips[int(clip * len(self._clips))]
            self._start = int(start * len(self._clip))

    def _first(self, run_seed: int) -> int:
        """Return the frame of the continuous video at which episode 0 starts."""
        if self._config.start == "first" or not self._video:
            return 0
        return int(np.random.default_rng([run_seed, _STREAM]).integers(len(self._video)))

    def frame(self, time: int, size: int) -> _Picture:
        """Return the background [size, size, 3] at decision `time`."""
        return to_size(self._noise(time) if self._config.source == "noise" else self._picture(time), size)

    def _picture(self, time: int) -> _Picture:
        played = self._start + self._step * (time if self._config.source == "video" else 0)
        if self._video:
            clip, number = self._video[played % len(self._video)]
            picture = self._clips[clip][number]
        else:
            picture = self._clip[played % len(self._clip)]
        if self._matrix is not None:
            picture = turn_hue(picture, self._matrix)
        return to_gray(picture) if self._config.grayscale else picture

    def _noise(self, time: int) -> _Picture:
        rng = np.random.default_rng([self._seed, _STREAM, time])
        drawn = rng.standard_normal((self._size, self._size, 3), np.float32)
        drawn *= np.float32(255 * self._config.noise)
        drawn += np.float32(127.5)
        noisy = np.clip(drawn, 0, 255, out=drawn).astype(np.uint8)
        return to_gray(noisy) if self._config.grayscale else noisy


def _join(clips: Sequence[_Picture], limit: int) -> list[tuple[int, int]]:
    """Join all clips into one video of `limit` frames, as (clip, frame) pairs. If they are too short, repeat them."""
    every = [(index, number) for index, clip in enumerate(clips) for number in range(len(clip))]
    return list(itertools.islice(itertools.cycle(every), limit))


class View:
    """The camera and colors of one episode, determined by the episode's random generator and the decision.

    They affect only the rendered scene, not the simulation.
    """

    def __init__(self, config: DistractorConfig, rng: np.random.Generator) -> None:
        self._reach = math.radians(config.jitter)
        self._phases: _Vector = rng.uniform(0, 2 * np.pi, 3).tolist()
        self._speeds: _Vector = (2 * np.pi / rng.uniform(*_PERIODS, 3)).tolist()
        self._shift = config.agent_color * rng.uniform(-1, 1, (_MATERIALS, 3))
        self._recolors = config.agent_color > 0
        self._fixed: list[bool] = []
        self._poses: list[NDArray[np.float64]] = []
        if config.camera_pose or config.dynamic:
            # A stream of their own, so that the draws above are those of earlier versions.
            self._walk, self._dynamic, scale = rng.spawn(1)[0], config.dynamic, config.camera_pose
            turn = 0.5 * np.pi * scale
            self._low, self._high = np.array([-turn, -turn, -turn, 0.0]), np.array([turn, turn, turn, 0.5 * scale])
            self._poses, self._velocity = [self._walk.uniform(self._low, self._high)], np.zeros(4)
            self._shifts, self._bound, self._scale = [self._shift], config.agent_color, scale

    def _advance(self, time: int) -> None:
        """Extend the random walks of colors and pose to decision `time`. A step depends only on the earlier ones."""
        while self._dynamic and len(self._poses) <= time:
            step = self._walk.normal(0, _COLOR_STEP * self._bound, self._shift.shape)
            self._shifts.append(np.clip(self._shifts[-1] + step, -self._bound, self._bound))
            change = self._walk.normal(0, _POSE_STEP * self._scale, 4)
            self._velocity = np.clip(self._velocity + change, -_POSE_SPEED * self._scale, _POSE_SPEED * self._scale)
            pose = np.clip(self._poses[-1] + self._velocity, self._low, self._high)
            self._velocity = np.where(pose == self._poses[-1] + self._velocity, self._velocity, 0.0)
            self._poses.append(pose)
        self._shift = self._shifts[min(time, len(self._shifts) - 1)]

    def _orbit(self, time: int, model: Any, scene: Any) -> None:
        """Move the cameras around the point on their axis that is nearest to the middle of the moving bodies."""
        yaw, pitch, roll, nearer = self._poses[min(time, len(self._poses) - 1)].tolist()
        moving = [g.pos for g in scene.geoms[: scene.ngeom] if g.objtype == _GEOM and model.geom_bodyid[g.objid] != 0]
        middle = np.mean(moving, axis=0) if moving else np.zeros(3)
        for camera in scene.camera:
            distance = float(np.dot(middle - camera.pos, camera.forward))
            center = camera.pos + distance * np.asarray(camera.forward)
            forward, up = _rotate_axes(camera.forward.tolist(), camera.up.tolist(), [yaw, pitch, roll])
            position = center - (1 - nearer) * distance * np.array(forward)
            position[2] = max(position[2], min(_LOWEST, camera.pos[2]))
            camera.pos, camera.forward, camera.up = position, forward, up

    def adjust(self, time: int, model: Any, scene: Any) -> None:
        """Rotate the cameras and recolor the moving bodies of mujoco.MjvScene `scene` for decision `time`."""
        if self._poses:
            self._advance(time)
            if self._scale:
                self._orbit(time, model, scene)
        if self._reach:
            waves = zip(self._speeds, self._phases, strict=True)
            angles = [self._reach * math.sin(speed * time + phase) for speed, phase in waves]
            for camera in scene.camera:
                camera.forward, camera.up = _rotate_axes(camera.forward.tolist(), camera.up.tolist(), angles)
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


def _rotate_axes(forward: _Vector, up: _Vector, angles: _Vector) -> tuple[_Vector, _Vector]:
    """Rotate a camera's axes by yaw, pitch and roll."""
    (a, b, c), (x, y, z) = forward, up
    right = [b * z - c * y, c * x - a * z, a * y - b * x]
    yaw, pitch, roll = angles
    forward, right = _rotate(forward, right, yaw)
    forward, up = _rotate(forward, up, pitch)
    up, right = _rotate(up, right, roll)
    return forward, up


def _rotate(one: _Vector, other: _Vector, angle: float) -> tuple[_Vector, _Vector]:
    cosine, sine = math.cos(angle), math.sin(angle)
    pairs = list(zip(one, other, strict=True))
    return [cosine * a + sine * b for a, b in pairs], [cosine * b - sine * a for a, b in pairs]
