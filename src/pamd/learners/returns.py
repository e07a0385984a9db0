"""Bootstrapped returns of one or several steps."""

from __future__ import annotations

from torch import Tensor

from pamd.types import Batch

__all__ = ["bootstrapped"]


def bootstrapped(batch: Batch, value: Tensor, gamma: float) -> Tensor:
    """Return the critic's target [B]: rewards plus the discounted value [B] of the state at which the return ends."""
    if batch.n_step is not None:
        return batch.n_step.reward + batch.n_step.discount * value
    return batch.reward + gamma * batch.not_done * value
