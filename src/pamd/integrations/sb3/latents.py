"""Latents of one batch, computed from features of the algorithm's own forward passes if available."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pamd.errors import ConfigError
from pamd.representation import Representation
from pamd.representation.latents import Which

__all__ = ["FeatureLatents", "Transitions"]


@dataclass(frozen=True)
class Transitions:
    """B transitions sampled by the algorithm."""

    obs: Tensor
    """[B, ...], not preprocessed"""
    action: Tensor
    """[B, A] floats, or [B] int64"""
    reward: Tensor
    """[B]"""
    next_obs: Tensor
    """[B, ...]"""
    not_done: Tensor
    """[B]: 0 if the episode terminated, otherwise 1, including time limits"""


class FeatureLatents:
    """Latents for the losses of a `Representation`, from features [B, F] of the algorithm's extractors."""

    def __init__(
        self,
        representation: Representation,
        features: Tensor,
        extract: Callable[[Which, str], Tensor],
        known: dict[tuple[Which, str], Tensor],
    ) -> None:
        self._representation, self._extract, self._features = representation, extract, dict(known)
        self._computed: dict[str, Any] = {}
        self._latents: dict[tuple[Which, str], Tensor] = {}
        self._z: Tensor = representation.encoder(features)

    @property
    def z(self) -> Tensor:
        return self._z

    def fixed_z(self, which: Which) -> Tensor:
        return self._z.detach() if which == "online" else self._latent(which, "obs")

    def z_next(self, which: Which) -> Tensor:
        return self._latent(which, "next_obs")

    def z_window(self, which: Which) -> Tensor:
        raise ConfigError("operator 'n-step' requires windows of several steps, which SB3's buffers do not provide")

    def once(self, name: str, compute: Callable[[], Any]) -> Any:
        if name not in self._computed:
            self._computed[name] = compute()
        return self._computed[name]

    @torch.no_grad()
    def _latent(self, which: Which, name: str) -> Tensor:
        key = (which, name)
        if key not in self._latents:
            features = self._features[key] if key in self._features else self._extract(which, name)
            rep = self._representation
            encoder = rep.encoder if which == "online" else rep.slow_encoders[which]
            self._latents[key] = encoder(features)
        return self._latents[key]
