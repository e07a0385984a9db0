"""A task with a distracting background."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.envs.config import DistractorConfig, Split
from pamd.envs.distractors.compose import blue_mask, compose
from pamd.envs.distractors.scenery import Scenery, View
from pamd.envs.distractors.split import load_clips
from pamd.envs.task import Adjust, MaskedFrame, Outcome, Task


class Distracted(Task):
    """A task with a distracting background. Dynamics, rewards and episode ends come from the inner task.

    The image depends on the task's state, the episode's seed and number, and the decision, so a replayed episode has
    the same images, bit for bit. To compare two backgrounds of one state, call `draw_on_clip("train", size)` and
    `draw_on_clip("unseen", size)`. For any other background, call `draw_masked(size)`, which returns the frame without
    the distractor and the mask, and then `compose`.
    """

    def __init__(self, inner: Task, config: DistractorConfig, *, size: int, action_repeat: int, frames: int) -> None:
        """Wrap `inner`. `config` comes from `prepare` at `size`; an episode has at most `frames` simulator frames."""
        self.inner, self.config = inner, config
        self.action_size, self.frame_rate, self.time_limit = inner.action_size, inner.frame_rate, inner.time_limit
        self._size, self._repeat = size, action_repeat
        self._decisions = -(-frames // action_repeat)
        self._sceneries: dict[tuple[Split, int], Scenery] = {}
        self._seed = self._age = 0
        self._view: View | None = None

    @property
    def physics(self) -> Any:
        """dm_control's physics, if the inner task has it."""
        return self.inner.physics  # type: ignore[attr-defined]

    def begin(self, seed: int) -> None:
        self.inner.episode, self.inner.run_seed = self.episode, self.run_seed
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
        return self.draw_on_clip(self.config.split, size)

    def draw_on_clip(self, split: Split, size: int, variant: int = 0) -> NDArray[np.uint8]:
        """Draw the current state as RGB [size, size, 3] with this episode's clip of `split` as the background.

        Each `variant` other than 0 samples another clip, starting frame and hue for the same episode.
        """
        config = self.config
        if config.source == "none":
            return self.draw_masked(size).frame if self._view else self.inner.draw(size)
        # If the background is fully replaced, it is not drawn, except for the blue rule, which reads it.
        replaced = config.strength >= 1 and config.mask == "segmentation"
        frame, mask = self.draw_masked(size, foreground_only=replaced)
        background = self._scenery(split, variant).frame(self.decision, size)
        return compose(frame, mask, background, config.strength)

    @property
    def decision(self) -> int:
        """The number of decisions in the episode so far."""
        return -(-self._age // self._repeat)

    def draw_masked(self, size: int, adjust: Adjust | None = None, *, foreground_only: bool = False) -> MaskedFrame:
        """Draw the current state without the distractor's background, and return the mask of the background.

        The camera motion and the color changes of the distractor are applied first, and then `adjust`.
        """
        adjust = self._adjust(adjust)
        if self.config.mask == "segmentation":
            return self.inner.draw_masked(size, adjust, foreground_only=foreground_only)
        frame = self.inner.draw(size) if adjust is None else self.inner.draw_masked(size, adjust).frame
        return MaskedFrame(frame, blue_mask(frame))

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
        scenery.begin(seed, self.episode + variant, self.run_seed)
