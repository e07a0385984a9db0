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

    def __init__(
        self, batch_size: int, layout: Layout, with_n_step: bool, window: int = 0, sequence: bool = False
    ) -> None:
        stack, (first, *rest) = layout.frame_stack, layout.frame_shape
        # The state and the next state share frames, and so do all states of a sequence. Then come the frames of the
        # n-step state, and those of the end of a window without a sequence.
        run = stack + (window if sequence else 1)
        count = run + stack * (with_n_step + (window > 0 and not sequence))
        frames = _empty(batch_size, count, *layout.frame_shape, dtype=getattr(torch, layout.dtype))
        shape = (batch_size, stack * first, *rest)
        self.batch = Batch(
            # Both are views of the same memory: nothing is copied, and a shared frame is read once.
            obs=frames[:, :stack].view(shape),
            action=_empty(batch_size, layout.action_dim),
            reward=_empty(batch_size),
            next_obs=frames[:, 1 : stack + 1].view(shape),
            not_done=_empty(batch_size),
            n_step=_n_step(frames[:, run : run + stack].view(shape)) if with_n_step else None,
            window=_window(frames, shape, layout, window, sequence) if window else None,
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
        if window is None or window.sequence is None:
            frames = ring.frames_of(counters, *ends)
        else:
            frames = ring.frames_of(counters, *ends[:-1], ahead=window.reward.shape[1], last=ends[-1])
        storage.frames.gather(frames, out=self._frames)
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


def _window(frames: torch.Tensor, shape: tuple[int, ...], layout: Layout, steps: int, sequence: bool) -> Window:
    """Return windows whose observations [B, ...] of this shape are views of the frames of a batch."""
    size, *rest = shape
    obs, every = None, None
    if sequence:
        # A step later begins one frame later. The states overlap in memory, so that no frame is stored twice.
        strides = frames.stride()
        every = frames.as_strided((size, steps, *rest), strides, strides[1])
    else:
        obs = frames[:, -layout.frame_stack :].view(shape)
    action = _empty(size, steps, layout.action_dim)
    return Window(_empty(size, steps), _empty(size, dtype=torch.int64), obs, _empty(size), action, every)


def _fill_returns(n_step: NStep, storage: Storage, counters: Counters, steps: Counters, gamma: float) -> None:
    """Fill in the return and discount over `steps` [B] steps, starting at transitions `counters` [B]."""
    rewards = _rewards(storage, counters, steps, int(steps.max()))
    n_step.reward.numpy()[:] = (rewards * gamma ** np.arange(rewards.shape[1])).sum(axis=1)
    n_step.discount.numpy()[:] = gamma**steps * (1.0 - _terminated(storage, counters, steps))


def _fill_window(window: Window, storage: Storage, counters: Counters, steps: Counters) -> None:
    """Fill in the actions, rewards, length and end of `steps` [B] steps, starting at transitions `counters` [B]."""
    assert window.action is not None
    window.reward.numpy()[:] = _rewards(storage, counters, steps, window.reward.shape[1])
    # The last action is repeated after the last step, because later slots may contain another episode or stale values.
    taken = counters[:, None] + np.minimum(np.arange(window.reward.shape[1]), steps[:, None] - 1)
    np.take(storage.actions, taken % storage.layout.capacity, axis=0, out=window.action.numpy(), mode="clip")
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
