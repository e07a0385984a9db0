"""Batch sampling with one gather into preallocated buffers. No other file of the replay needs torch."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from pamd.replay.layout import Layout
from pamd.replay.ring import Counters, Ring
from pamd.replay.storage import Storage
from pamd.types import Batch, NStep, Window


class Buffers:
    """The memory of one batch of B transitions; `fill` overwrites it."""

    def __init__(self, batch_size: int, layout: Layout, with_n_step: bool, window: int = 0) -> None:
        stack, (first, *rest) = layout.frame_stack, layout.frame_shape
        # The state and next state share frames. Then come the frames of the n-step state and of the end of the window.
        count = stack + 1 + stack * (with_n_step + (window > 0))
        frames = _empty(batch_size, count, *layout.frame_shape, dtype=getattr(torch, layout.dtype))
        shape = (batch_size, stack * first, *rest)
        self.batch = Batch(
            # Both are views of the same memory: nothing is copied, and a shared frame is read once.
            obs=frames[:, :stack].view(shape),
            action=_empty(batch_size, layout.action_dim),
            reward=_empty(batch_size),
            next_obs=frames[:, 1 : stack + 1].view(shape),
            not_done=_empty(batch_size),
            n_step=_n_step(frames[:, stack + 1 : 2 * stack + 1].view(shape)) if with_n_step else None,
            window=_window(frames[:, count - stack :].view(shape), window) if window else None,
        )
        self._frames = frames.numpy()
        self._action = self.batch.action.numpy()
        self._reward = self.batch.reward.numpy()
        self._not_done = self.batch.not_done.numpy()

    def fill(self, storage: Storage, ring: Ring, counters: Counters, n_step: int, gamma: float) -> Batch:
        """Fill the batch with the transitions `counters` [B] and return it."""
        batch, window = self.batch, self.batch.window
        ends = [] if batch.n_step is None else [ring.steps_ahead(counters, n_step)]
        ends += [] if window is None else [ring.steps_ahead(counters, window.reward.shape[1])]
        storage.frames.gather(ring.frames_of(counters, *ends), out=self._frames)
        slots = counters % ring.capacity
        np.take(storage.actions, slots, axis=0, out=self._action, mode="clip")
        np.take(storage.rewards, slots, out=self._reward, mode="clip")
        np.subtract(1.0, storage.terminated[slots], out=self._not_done)
        if batch.n_step is not None:
            _fill_returns(batch.n_step, storage, counters, ends[0], gamma)
        if window is not None:
            _fill_window(window, storage, counters, ends[-1])
        return batch


def _empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Allocate host memory. With a GPU, it is pinned, which makes copies asynchronous and several times faster."""
    return torch.empty(shape, dtype=dtype, pin_memory=torch.cuda.is_available())


def _n_step(next_obs: torch.Tensor) -> NStep:
    return NStep(_empty(len(next_obs)), next_obs, _empty(len(next_obs)))


def _window(obs: torch.Tensor, steps: int) -> Window:
    size = len(obs)
    return Window(_empty(size, steps), _empty(size, dtype=torch.int64), obs, _empty(size))


def _fill_returns(n_step: NStep, storage: Storage, counters: Counters, steps: Counters, gamma: float) -> None:
    """Fill in the return and discount over `steps` [B] steps, starting at transitions `counters` [B]."""
    rewards = _rewards(storage, counters, steps, int(steps.max()))
    n_step.reward.numpy()[:] = (rewards * gamma ** np.arange(rewards.shape[1])).sum(axis=1)
    n_step.discount.numpy()[:] = gamma**steps * (1.0 - _terminated(storage, counters, steps))


def _fill_window(window: Window, storage: Storage, counters: Counters, steps: Counters) -> None:
    """Fill in the rewards, length and end of `steps` [B] steps, starting at transitions `counters` [B]."""
    window.reward.numpy()[:] = _rewards(storage, counters, steps, window.reward.shape[1])
    window.length.numpy()[:] = steps
    window.not_done.numpy()[:] = 1.0 - _terminated(storage, counters, steps)


def _rewards(storage: Storage, counters: Counters, steps: Counters, most: int) -> NDArray[np.floating]:
    """Return the rewards [B, most] of `steps` [B] steps, padded with zeros."""
    k = np.arange(most)
    # Slots beyond the last step may contain another episode or stale values, which must be ignored.
    return np.where(k < steps[:, None], storage.rewards[(counters[:, None] + k) % storage.layout.capacity], 0.0)


def _terminated(storage: Storage, counters: Counters, steps: Counters) -> NDArray[np.bool_]:
    """Return whether each episode terminated within the steps [B].

    Only the last step of an episode can terminate it.
    """
    return np.asarray(storage.terminated[(counters + steps - 1) % storage.layout.capacity])
