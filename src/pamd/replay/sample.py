"""Batches: one gather into preallocated buffers. The only file of the replay that needs torch."""

from __future__ import annotations

import numpy as np
import torch

from pamd.replay.layout import Layout
from pamd.replay.ring import Counters, Ring
from pamd.replay.storage import Storage
from pamd.types import Batch, NStep

__all__ = ["Buffers"]


class Buffers:
    """The memory of one batch of B transitions; `fill` overwrites it."""

    def __init__(self, batch_size: int, layout: Layout, with_n_step: bool) -> None:
        stack, (first, *rest) = layout.frame_stack, layout.frame_shape
        # The frames of the state and the next state overlap; those of the n-step state follow.
        count = 2 * stack + 1 if with_n_step else stack + 1
        # Copies from pinned memory to a GPU are several times faster.
        pinned = torch.cuda.is_available()
        dtype = getattr(torch, layout.dtype)
        frames = torch.empty((batch_size, count, *layout.frame_shape), dtype=dtype, pin_memory=pinned)
        shape = (batch_size, stack * first, *rest)
        self.batch = Batch(
            # Both are views of the same frames: nothing is copied, and a frame that both share is read once.
            obs=frames[:, :stack].view(shape),
            action=torch.empty((batch_size, layout.action_dim)),
            reward=torch.empty(batch_size),
            next_obs=frames[:, 1 : stack + 1].view(shape),
            not_done=torch.empty(batch_size),
            n_step=_n_step(frames[:, stack + 1 :].view(shape)) if with_n_step else None,
        )
        self._frames = frames.numpy()
        self._action = self.batch.action.numpy()
        self._reward = self.batch.reward.numpy()
        self._not_done = self.batch.not_done.numpy()

    def fill(self, storage: Storage, ring: Ring, counters: Counters, n_step: int, gamma: float) -> Batch:
        """[B] transitions -> the batch."""
        steps = None if self.batch.n_step is None else ring.steps_ahead(counters, n_step)
        storage.frames.gather(ring.frames_of(counters, steps), out=self._frames)
        slots = counters % ring.capacity
        np.take(storage.actions, slots, axis=0, out=self._action, mode="clip")
        np.take(storage.rewards, slots, out=self._reward, mode="clip")
        np.subtract(1.0, storage.terminated[slots], out=self._not_done)
        if self.batch.n_step is not None and steps is not None:
            _fill_returns(self.batch.n_step, storage, counters, steps, gamma)
        return self.batch


def _n_step(next_obs: torch.Tensor) -> NStep:
    return NStep(torch.empty(len(next_obs)), next_obs, torch.empty(len(next_obs)))


def _fill_returns(n_step: NStep, storage: Storage, counters: Counters, steps: Counters, gamma: float) -> None:
    """Reward and discount of the `steps` [B] steps from transitions `counters` [B]."""
    capacity = storage.layout.capacity
    k = np.arange(steps.max())
    # Slots beyond the last step may hold another episode or stale values; they must not count.
    rewards = np.where(k < steps[:, None], storage.rewards[(counters[:, None] + k) % capacity], 0.0)
    n_step.reward.numpy()[:] = (rewards * gamma**k).sum(axis=1)
    # Only the last step of an episode can terminate it.
    terminated = storage.terminated[(counters + steps - 1) % capacity]
    n_step.discount.numpy()[:] = gamma**steps * (1.0 - terminated)
