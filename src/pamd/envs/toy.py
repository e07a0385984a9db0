"""A pixel control task in plain numpy: no OpenGL, thousands of frames a second, learnable in minutes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pamd.envs.config import EnvConfig
from pamd.envs.task import FAMILIES, Adjust, Outcome, Shot, Task
from pamd.errors import ConfigError, UnknownNameError

__all__ = ["Toy"]

SPEED = 0.1
"""Way of one frame under a full action, per axis; the plane is [-1, 1] x [-1, 1]."""
SHARPNESS = 3.0
"""The reward is exp(-SHARPNESS * distance between agent and target)."""

# Bluer than it is red or green, as the suite's floor and sky are: what replaces the suite's background (a distracting
# video, by the released rule B > G and B > R) replaces this one too.
BACKGROUND = (30, 40, 90)
TARGET = (60, 200, 80)
AGENT = (250, 90, 60)
# Radii as parts of the picture's side.
TARGET_RADIUS = 0.14
AGENT_RADIUS = 0.09


@FAMILIES.register("toy")
class Toy(Task):
    """A disc on a plane, moved by its velocity [2], earns exp(-3 distance) per frame near a target disc.

    `toy` has its target in the middle; in `toy:goal` the target, too, is somewhere else in every episode, so states
    that look different but have the same offset are alike in behaviour (away from the walls). Rewards are in (0, 1] and
    depend on the state alone; 40 frames, always ended by the clock. One frame shows the whole state.

    Mean return of 1000 episodes: `toy` 5.8 with random actions, 36.4 going straight to the target; `toy:goal` 4.3 and
    33.9.
    """

    action_size = 2
    frame_rate = 10.0
    time_limit = 40
    bare = True

    def __init__(self, name: str, config: EnvConfig) -> None:
        if name not in ("", "goal"):
            raise UnknownNameError("toy task", name, ("goal",))
        if config.camera != 0:
            raise ConfigError(f"{config.what}: camera must be 0, the only one it has, got {config.camera}")
        self._random_target = name == "goal"
        self.position = np.zeros(2)
        """Where the agent is, [2]: x to the right, y upwards."""
        self.target = np.zeros(2)
        self._empty: dict[int, NDArray[np.uint8]] = {}

    def begin(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.position = random.uniform(-1.0, 1.0, size=2)
        self.target = random.uniform(-1.0, 1.0, size=2) if self._random_target else np.zeros(2)

    def advance(self, action: NDArray[np.float32]) -> Outcome:
        self.position = np.clip(self.position + SPEED * action.astype(np.float64), -1.0, 1.0)
        distance = float(np.hypot(*(self.position - self.target)))
        return Outcome(float(np.exp(-SHARPNESS * distance)), False, False)

    def draw(self, size: int) -> NDArray[np.uint8]:
        return self.shoot(size).frame

    def shoot(self, size: int, adjust: Adjust | None = None, *, bare: bool = False) -> Shot:
        if adjust is not None:
            raise ConfigError("toy has no camera and no bodies: distractor.jitter and distractor.agent_color must be 0")
        if size not in self._empty:
            self._empty[size] = np.full((size, size, 3), BACKGROUND, np.uint8)
        picture = self._empty[size].copy()
        background = np.ones((size, size), np.bool_)
        _paint_disc(picture, background, self.target, TARGET_RADIUS, TARGET)
        _paint_disc(picture, background, self.position, AGENT_RADIUS, AGENT)
        return Shot(picture, background)


def _paint_disc(
    picture: NDArray[np.uint8],
    background: NDArray[np.bool_],
    centre: NDArray[np.float64],
    radius: float,
    colour: tuple[int, int, int],
) -> None:
    """Blend a disc into the picture [size, size, 3]; its edge is soft, so the place is seen to a part of a pixel.

    `background` [size, size] loses what the disc covers.
    """
    size = picture.shape[0]
    reach = radius * size
    # The centre keeps the larger disc's radius from the border, so that every state is wholly in the picture.
    margin = TARGET_RADIUS * size - 0.5
    column = margin + (size - 1 - 2 * margin) * (float(centre[0]) + 1) / 2
    row = margin + (size - 1 - 2 * margin) * (1 - float(centre[1])) / 2
    top, left = max(0, int(row - reach - 1)), max(0, int(column - reach - 1))
    there = (slice(top, int(row + reach + 2)), slice(left, int(column + reach + 2)))
    patch = picture[there]
    across, down = np.arange(patch.shape[1]) + (left - column), np.arange(patch.shape[0]) + (top - row)
    cover = np.minimum(np.maximum(reach + 0.5 - np.sqrt(down[:, None] ** 2 + across**2), 0.0), 1.0)[:, :, None]
    patch[:] = np.rint(patch + cover * (np.array(colour) - patch))
    background[there] &= cover[:, :, 0] == 0
