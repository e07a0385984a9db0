"""Batches: one gather into buffers that are made once. The only file of the replay that needs torch."""

from __future__ import annotations

import numpy as np
import torch

from pamd.replay.layout import Layout
from pamd.replay.ring import Counters, Ring
from pamd.replay.storage import Storage
from pamd.types import Batch

__all__ = ["Buffers"]


class Buffers:
    """The memory of one batch of B transitions; `fill` overwrites it."""

    def __init__(self, batch_size: int, layout: Layout) -> None:
        channels, height, width = layout.frame_shape
        stack = layout.frame_stack
        # Pinned memory goes to a GPU several times as fast.
        pinned = torch.cuda.is_available()
        frames = torch.empty((batch_size, stack + 1, channels, height, width), dtype=torch.uint8, pin_memory=pinned)
        shape = (batch_size, stack * channels, height, width)
        self.batch = Batch(
            # Both are views of the same frames: neither is ever copied, and a frame that both share is read once.
            obs=frames[:, :-1].view(shape),
            action=torch.empty((batch_size, layout.action_dim)),
            reward=torch.empty(batch_size),
            next_obs=frames[:, 1:].view(shape),
            not_done=torch.empty(batch_size),
        )
        self._frames = frames.numpy()
        self._action = self.batch.action.numpy()
        self._reward = self.batch.reward.numpy()
        self._not_done = self.batch.not_done.numpy()

    def fill(self, storage: Storage, ring: Ring, counters: Counters) -> Batch:
        """[B] transitions -> the batch."""
        storage.frames.gather(ring.frames_of(counters), out=self._frames)
        slots = counters % ring.capacity
        np.take(storage.actions, slots, axis=0, out=self._action, mode="clip")
        np.take(storage.rewards, slots, out=self._reward, mode="clip")
        np.subtract(1.0, storage.terminated[slots], out=self._not_done)
        return self.batch
