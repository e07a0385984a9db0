"""A pixel control task in plain numpy. It needs no OpenGL and can be learned in minutes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pamd.envs.config import EnvConfig
from pamd.envs.task import FAMILIES, Adjust, MaskedFrame, Outcome, Task
from pamd.errors import ConfigError, UnknownNameError

SPEED = 0.1
"""Displacement per frame and axis under a full action; the plane is [-1, 1] x [-1, 1]."""
SHARPNESS = 3.0
"""The reward is exp(-SHARPNESS * distance between agent and target)."""

# Mostly blue, like the floor and sky of the suite, so that the background rule of the released code (B > G and B > R)
# detects it.
_BACKGROUND = (30, 40, 90)
_TARGET = (60, 200, 80)
_AGENT = (250, 90, 60)
# Radii as fractions of the image's side.
_TARGET_RADIUS = 0.14
_AGENT_RADIUS = 0.09


@FAMILIES.register("toy")
class Toy(Task):
    """A disc on a plane. The action is its velocity [2], and the reward is exp(-3 distance to the target) per frame.

    The target of `toy` is in the center. `toy:goal` samples a new target for every episode, so states with the same
    offset look different but behave the same (away from the walls). Rewards are in (0, 1] and depend only on the state.
    An episode is truncated after 40 frames. One frame shows the complete state.

    The mean return of 1000 episodes of `toy` is 5.8 with random actions and 36.4 on the straight path to the target.
    For `toy:goal`, it is 4.3 and 33.9.
    """

    action_size = 2
    frame_rate = 10.0
    time_limit = 40
    bare = True

    def __init__(self, name: str, config: EnvConfig) -> None:
        self.check_name(name)
        if config.camera != 0:
            raise ConfigError(f"{config.what}: camera must be 0 for toy, got {config.camera}")
        self._random_target = name == "goal"
        self.position = np.zeros(2)
        """The agent's position, [2]: x to the right, y upward."""
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
        return self.draw_masked(size).frame

    def draw_masked(self, size: int, adjust: Adjust | None = None, *, foreground_only: bool = False) -> MaskedFrame:
        if adjust is not None:
            raise ConfigError(
                "toy has neither camera nor bodies: distractor.jitter and distractor.agent_color must be 0"
            )
        if size not in self._empty:
            self._empty[size] = np.full((size, size, 3), _BACKGROUND, np.uint8)
        picture = self._empty[size].copy()
        background = np.ones((size, size), np.bool_)
        _paint_disc(picture, background, self.target, _TARGET_RADIUS, _TARGET)
        _paint_disc(picture, background, self.position, _AGENT_RADIUS, _AGENT)
        return MaskedFrame(picture, background)

    @classmethod
    def tasks(cls) -> Sequence[str]:
        return ("toy", "toy:goal")

    @classmethod
    def check_name(cls, name: str) -> None:
        if name not in ("", "goal"):
            raise UnknownNameError("toy task", name, ("goal",))


def _paint_disc(
    picture: NDArray[np.uint8],
    background: NDArray[np.bool_],
    center: NDArray[np.float64],
    radius: float,
    color: tuple[int, int, int],
) -> None:
    """Blend a disc with a soft edge into the image [size, size, 3], so that subpixel motion is visible.

    The pixels that the disc covers are removed from `background` [size, size].
    """
    size = picture.shape[0]
    reach = radius * size
    # The center is at least the larger radius away from the border, so the whole disc is visible.
    margin = _TARGET_RADIUS * size - 0.5
    column = margin + (size - 1 - 2 * margin) * (float(center[0]) + 1) / 2
    row = margin + (size - 1 - 2 * margin) * (1 - float(center[1])) / 2
    top, left = max(0, int(row - reach - 1)), max(0, int(column - reach - 1))
    box = (slice(top, int(row + reach + 2)), slice(left, int(column + reach + 2)))
    patch = picture[box]
    across, down = np.arange(patch.shape[1]) + (left - column), np.arange(patch.shape[0]) + (top - row)
    cover = np.minimum(np.maximum(reach + 0.5 - np.sqrt(down[:, None] ** 2 + across**2), 0.0), 1.0)[:, :, None]
    patch[:] = np.rint(patch + cover * (np.array(color) - patch))
    background[box] &= cover[:, :, 0] == 0
