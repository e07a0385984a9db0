"""A task before a background that is not its own."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.envs.distractors.compose import blue_mask, compose
from pamd.envs.distractors.config import DistractorConfig, Split
from pamd.envs.distractors.scenery import Scenery
from pamd.envs.distractors.split import load_clips
from pamd.envs.distractors.view import View
from pamd.envs.task import Adjust, Outcome, Shot, Task

__all__ = ["Distracted"]

SUITE_FRAMES = 1000
"""The length of every episode of the DMControl suite."""


class Distracted(Task):
    """Another task, drawn with a distractor; its dynamics, rewards and ends are untouched.

    What is drawn depends on the task's state, the episode's seed and number, and the decision: so an episode that is
    played again looks the same, bit for bit. A diagnostic that compares one state before two backgrounds takes
    `draw_before("train", size)` and `draw_before("unseen", size)`; or `shoot(size)`, which gives the frame without the
    distractor and the mask, and `compose` with any background.
    """

    def __init__(self, inner: Task, config: DistractorConfig, *, size: int, action_repeat: int, frames: int) -> None:
        """`config` is from `prepare` at `size`; an episode has at most `frames` simulator frames."""
        self.inner, self.config = inner, config
        self.action_size, self.frame_rate, self.time_limit = inner.action_size, inner.frame_rate, inner.time_limit
        self._size, self._repeat = size, action_repeat
        self._decisions = -(-frames // action_repeat)
        self._sceneries: dict[tuple[Split, int], Scenery] = {}
        self._seed = self._age = 0
        self._view: View | None = None

    @property
    def physics(self) -> Any:
        """dm_control's physics, where the task has one."""
        return self.inner.physics  # type: ignore[attr-defined]

    def begin(self, seed: int) -> None:
        self.inner.episode = self.episode
        self.inner.begin(seed)
        self._seed, self._age = seed, 0
        if self.config.moves_scene:
            self._view = View(self.config, np.random.default_rng([seed, 0xCA3E]))
        for (_, variant), scenery in self._sceneries.items():
            self._begin(scenery, variant)

    def advance(self, action: NDArray[np.float32]) -> Outcome:
        self._age += 1
        return self.inner.advance(action)

    def draw(self, size: int) -> NDArray[np.uint8]:
        return self.draw_before(self.config.split, size)

    def draw_before(self, split: Split, size: int, variant: int = 0) -> NDArray[np.uint8]:
        """The present state as RGB [size, size, 3] before the clip that this episode has on that side of the split.

        Every `variant` but 0 is another draw of clip, start and colour for the same episode.
        """
        config = self.config
        if config.source == "none":
            return self.shoot(size).frame if self._view else self.inner.draw(size)
        # Where all of the background is painted over, it need not be drawn first. The blue rule has to see it.
        shot = self.shoot(size, bare=config.strength >= 1 and config.mask == "segmentation")
        background = self._scenery(split, variant).frame(self.decision, size)
        return compose(shot.frame, shot.background, background, config.strength)

    @property
    def decision(self) -> int:
        """How many decisions the episode has had."""
        return -(-self._age // self._repeat)

    def shoot(self, size: int, adjust: Adjust | None = None, *, bare: bool = False) -> Shot:
        """The present state without the background of the distractor, and where that would be.

        The camera and the colours are the distractor's; `adjust` comes after them.
        """
        adjust = self._adjust(adjust)
        if self.config.mask == "segmentation":
            return self.inner.shoot(size, adjust, bare=bare)
        frame = self.inner.draw(size) if adjust is None else self.inner.shoot(size, adjust).frame
        return Shot(frame, blue_mask(frame))

    def close(self) -> None:
        self.inner.close()

    def _adjust(self, then: Adjust | None) -> Adjust | None:
        if self._view is None:
            return then
        first = functools.partial(self._view.adjust, self.decision)
        if then is None:
            return first

        def both(model: Any, scene: Any) -> None:
            first(model, scene)
            then(model, scene)

        return both

    def _scenery(self, split: Split, variant: int) -> Scenery:
        if (split, variant) not in self._sceneries:
            clips = load_clips(self.config, split, self._size)
            made = self._sceneries[split, variant] = Scenery(self.config, clips, self._size, self._decisions)
            self._begin(made, variant)
        return self._sceneries[split, variant]

    def _begin(self, scenery: Scenery, variant: int) -> None:
        seed = self._seed if variant == 0 else int(np.random.default_rng([self._seed, variant]).integers(2**32))
        scenery.begin(seed, self.episode + variant)
