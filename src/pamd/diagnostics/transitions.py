"""The transitions of a diagnostic and their latents, which are cached for a frozen encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from pamd.diagnostics.source import Drawn, choose
from pamd.replay import Replay
from pamd.types import Latents

__all__ = ["Encode", "Rewards", "Transitions", "reward_scale"]

Encode = Callable[[Tensor], Latents]
"""Maps rows [B] of the transitions to their latents."""

Rewards = Literal["as-is", "over-maximum", "over-magnitude"]
"""Unchanged, divided by the largest r, or divided by the largest |r|."""

_CHUNK = 256


def reward_scale(reward: Tensor, rewards: Rewards) -> float:
    """Return the divisor of rewards [N]; 1 if it would be 0."""
    if rewards == "as-is":
        return 1.0
    return float((reward if rewards == "over-maximum" else reward.abs()).max()) or 1.0


class Transitions:
    """N transitions of a replay, chosen once. Batches are read on demand."""

    def __init__(
        self,
        replay: Replay,
        count: int | None,
        drawn: Drawn,
        rewards: Rewards,
        origin: dict[str, Any],
    ) -> None:
        self._replay = replay
        self._chosen = choose(replay, count, drawn, np.random.default_rng(0))
        channels, self.size, _ = replay.layout.frame_shape
        self.channels = channels * replay.layout.frame_stack
        reward = torch.cat([self._take(rows).reward.clone() for rows in self._chunks()])
        scale = reward_scale(reward, rewards)
        self.reward = reward / scale
        """[N]"""
        self.description = {**origin, "transitions": len(self), "size": self.size, "reward_scale": scale}

    def __len__(self) -> int:
        return len(self._chosen)

    @torch.no_grad()
    def fixed(self, encoder: nn.Module) -> Encode:
        """Encode all transitions once with a frozen encoder, and return a lookup of their latents."""
        parts = [(encoder(batch.obs), encoder(batch.next_obs)) for batch in map(self._take, self._chunks())]
        z, z_next = (torch.cat(side) for side in zip(*parts, strict=True))
        return lambda rows: Latents(z=z[rows], reward=self.reward[rows], z_next=z_next[rows])

    def live(self, encoder: nn.Module) -> Encode:
        """Return a function that encodes transitions with a trainable encoder.

        Latents of next states have no gradient.
        """

        def encode(rows: Tensor) -> Latents:
            batch = self._take(rows)
            z = encoder(batch.obs)
            with torch.no_grad():
                z_next = encoder(batch.next_obs)
            return Latents(z=z, reward=self.reward[rows], z_next=z_next)

        return encode

    def _take(self, rows: Tensor) -> Any:
        return self._replay.take(self._chosen[rows.numpy()])

    def _chunks(self) -> tuple[Tensor, ...]:
        chunks: tuple[Tensor, ...] = torch.arange(len(self)).split(_CHUNK)
        return chunks
