"""Encoder outputs of one batch: each computed when first asked for, and at most once while the weights stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from pamd.nets import Encoder, as_pixels
from pamd.types import Batch

__all__ = ["EncodedBatch"]

Which = Literal["online", "ema", "periodic"]


class EncodedBatch:
    """What the losses read of a batch. `forget` after a step on the online encoder; slow copies stay valid."""

    def __init__(self, batch: Batch, online: Encoder, slow: dict[str, Encoder]) -> None:
        # Converted here once for every pass. States and next states go through a network one after the other: the
        # activations of both together would outgrow what the C library keeps of freed memory, and page-fault anew.
        self._obs, self._next_obs = as_pixels(batch.obs), as_pixels(batch.next_obs)
        self._encoder = online
        self._slow = slow
        self._online: dict[str, Tensor] = {}
        self._kept: dict[str, Tensor] = {}

    def forget(self) -> None:
        """Drop what the online encoder computed: its weights have changed."""
        self._online.clear()

    @property
    def features(self) -> Tensor:
        """Convolutional features of the states, with gradient: [B, F]."""
        return self._once(self._online, "features", lambda: self._encoder.convolutions(self._obs))

    @property
    def fixed_features(self) -> Tensor:
        """The same without gradient, for the actor: [B, F]."""
        if "features" in self._online:
            return self._online["features"].detach()
        return self._once(self._online, "fixed", lambda: self._frozen(self._encoder.convolutions, self._obs))

    @property
    def next_features(self) -> Tensor:
        """Convolutional features of the next states, no gradient: [B, F]."""
        return self._once(self._online, "next", lambda: self._frozen(self._encoder.convolutions, self._next_obs))

    @property
    def z(self) -> Tensor:
        """Online latents of the states, with gradient: [B, d]."""
        return self._once(self._online, "z", lambda: self._encoder.head(self.features))

    def fixed_z(self, which: Which) -> Tensor:
        """Latents of the states under an encoder, no gradient: [B, d]."""
        if which == "online":
            return self.z.detach()
        return self._slow_latents(which, next_states=False)

    def z_next(self, which: Which) -> Tensor:
        """Latents of the next states under an encoder, no gradient: [B, d]."""
        if which == "online":
            return self._once(self._online, "z_next", lambda: self._frozen(self._encoder.head, self.next_features))
        return self._slow_latents(which, next_states=True)

    def _slow_latents(self, which: Which, next_states: bool) -> Tensor:
        obs = self._next_obs if next_states else self._obs
        return self._once(self._kept, f"{which}.{next_states}", lambda: self._frozen(self._slow[which], obs))

    @staticmethod
    def _once(store: dict[str, Tensor], key: str, compute: Callable[[], Tensor]) -> Tensor:
        if key not in store:
            store[key] = compute()
        return store[key]

    @staticmethod
    @torch.no_grad()
    def _frozen(network: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        return network(x)
