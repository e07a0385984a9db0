"""Encoder outputs of one batch. Each is computed on first use and cached until the weights change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from pamd.representation.encoder import LatentEncoder

__all__ = ["BatchLatents", "CachedLatents", "Which"]

Which = Literal["online", "ema", "periodic"]
"""Which copy of the encoder: the trained one, its exponential moving average, or its periodic copy."""


class BatchLatents(Protocol):
    """The inputs of a representation's losses for a batch of B transitions."""

    @property
    def z(self) -> Tensor:
        """Online latents of the states, with gradient: [B, d]."""

    def fixed_z(self, which: Which) -> Tensor:
        """Return the latents of the states under a copy of the encoder, without gradient: [B, d]."""

    def z_next(self, which: Which) -> Tensor:
        """Return the latents of the next states under a copy of the encoder, without gradient: [B, d]."""

    def z_window(self, which: Which) -> Tensor:
        """Return the latents of the states at which windows end, without gradient: [B, d]."""

    def once(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return `compute()`, which depends on the online latents. It runs only once until the weights change."""


class CachedLatents:
    """Cached latents of a batch. Call `forget` after a step of the online encoder; those of slow copies stay valid."""

    def __init__(
        self,
        obs: Tensor,
        next_obs: Tensor,
        online: LatentEncoder,
        slow: Mapping[str, LatentEncoder],
        *,
        z: Tensor | None = None,
        return_obs: Tensor | None = None,
        window_obs: Tensor | None = None,
    ) -> None:
        # States and next states go through a network one after the other. The activations of both together would
        # exceed the freed memory that the C library keeps, and cause new page faults.
        self._raw = {"obs": obs, "next_obs": next_obs}
        if return_obs is not None:
            self._raw["return_obs"] = return_obs
        if window_obs is not None:
            self._raw["window_obs"] = window_obs
        self._encoder, self._slow = online, slow
        self._online: dict[str, Tensor] = {} if z is None else {"z": z}
        self._fixed: dict[str, Tensor] = {}
        self._computed: dict[str, Any] = {}

    def forget(self) -> None:
        """Drop all results of the online encoder, because its weights have changed."""
        self._online.clear()
        self._computed.clear()

    def once(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return `compute()`, which depends on the online latents. It runs only once until the weights change."""
        if name not in self._computed:
            self._computed[name] = compute()
        return self._computed[name]

    @property
    def features(self) -> Tensor:
        """Features of the states, with gradient: [B, F]."""
        return self._once(self._online, "features", lambda: self._encoder.trunk(self._prepared("obs")))

    @property
    def fixed_features(self) -> Tensor:
        """Features of the states, without gradient, for the actor: [B, F]."""
        if "features" in self._online:
            return self._online["features"].detach()
        return self._features_of("obs")

    @property
    def next_features(self) -> Tensor:
        """Features of the next states, without gradient: [B, F]."""
        return self._features_of("next_obs")

    @property
    def return_features(self) -> Tensor:
        """Features of the states at which returns end (the next states, for one step), without gradient: [B, F]."""
        return self._features_of(self._return)

    @property
    def z(self) -> Tensor:
        """Online latents of the states, with gradient: [B, d]."""
        return self._once(self._online, "z", lambda: self._encoder.head(self.features))

    @property
    def actor_z(self) -> Tensor:
        """Online latents of the states from `fixed_features`, without gradient: [B, d]."""
        return self._frozen(self._encoder.head, self.fixed_features)

    def fixed_z(self, which: Which) -> Tensor:
        """Return the latents of the states under a copy of the encoder, without gradient: [B, d]."""
        if which == "online":
            return self.z.detach()
        return self._slow_latents(which, "obs")

    def z_next(self, which: Which) -> Tensor:
        """Return the latents of the next states under a copy of the encoder, without gradient: [B, d]."""
        if which == "online":
            return self._once(self._online, "z_next", lambda: self._frozen(self._encoder.head, self.next_features))
        return self._slow_latents(which, "next_obs")

    def return_z(self, which: Literal["ema", "periodic"]) -> Tensor:
        """Return the latents of the states at which returns end, under a slow copy: [B, d]."""
        return self._slow_latents(which, self._return)

    def z_window(self, which: Which) -> Tensor:
        """Return the latents of the states at which windows end under a copy of the encoder, no gradient: [B, d]."""
        if which == "online":
            return self._frozen(self._encoder.head, self._features_of("window_obs"))
        return self._slow_latents(which, "window_obs")

    @property
    def _return(self) -> str:
        return "return_obs" if "return_obs" in self._raw else "next_obs"

    def _features_of(self, name: str) -> Tensor:
        return self._once(self._online, name, lambda: self._frozen(self._encoder.trunk, self._prepared(name)))

    def _prepared(self, name: str) -> Tensor:
        """Return the prepared observations. They are converted once for all passes."""
        return self._once(self._fixed, name, lambda: self._encoder.prepare(self._raw[name]))

    def _slow_latents(self, which: str, name: str) -> Tensor:
        key = f"{which} {name}"
        return self._once(self._fixed, key, lambda: self._frozen(self._slow[which], self._prepared(name)))

    @staticmethod
    def _once(store: dict[str, Tensor], key: str, compute: Callable[[], Tensor]) -> Tensor:
        if key not in store:
            store[key] = compute()
        return store[key]

    @staticmethod
    @torch.no_grad()
    def _frozen(network: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        return network(x)
