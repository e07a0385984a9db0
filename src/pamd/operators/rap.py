"""RAP's operator: the reward gap of two states without the noise of their rewards (Chen & Pan, 2022)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from pamd.distances import Distance
from pamd.errors import ShapeError
from pamd.operators.base import OPERATORS, Operator, OperatorConfig
from pamd.types import Latents, Pairs


@OPERATORS.register("rap")
class Rap(Operator[OperatorConfig]):
    """sqrt(c_R max((r - r')^2 - sigma^2 - sigma'^2, 0)) + gamma c_T d(next means); sigma is the reward's deviation.

    The expectation of (r - r')^2 over independent rewards is the squared gap of the means plus both variances. The loss
    does not regress the distance on this target. It compares squares (`compared`), which require no root and keep their
    sign.
    """

    Config = OperatorConfig

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"next_mean", "reward_std"})

    @property
    def coordinate_wise(self) -> bool:
        return False

    def _discrepancy(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        if latents.next_mean is None:
            raise ShapeError("operator Rap requires Latents.next_mean, which is missing")
        return distance.between(latents.next_mean, latents.next_mean, pairs)

    @torch.no_grad()
    def target(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        """Return the value at which both squares agree: [P]."""
        return self._squared_gap(latents, pairs).clamp_min(0).sqrt() + self._discounted(latents, pairs, distance)

    def bound(self, spread: float) -> float:
        return math.sqrt(self.config.reward_coefficient) * spread / (1 - self.config.gamma * self.config.c_T)

    def compared(
        self, value: Tensor, target: Tensor, latents: Latents, pairs: Pairs, distance: Distance[Any]
    ) -> tuple[Tensor, Tensor]:
        """Return (value - gamma c_T d(next means))^2 and c_R ((r - r')^2 - sigma^2 - sigma'^2): [P] each.

        Only the first has a gradient, through `value`.
        """
        with torch.no_grad():
            discounted, gap = self._discounted(latents, pairs, distance), self._squared_gap(latents, pairs)
        return (value - discounted).square(), gap

    def _discounted(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        discounted = self.config.gamma * self.config.c_T * self._discrepancy(latents, pairs, distance)
        if latents.not_done is None:
            return discounted
        return latents.not_done[pairs.left] * latents.not_done[pairs.right] * discounted

    def _squared_gap(self, latents: Latents, pairs: Pairs) -> Tensor:
        """Return c_R ((r - r')^2 - sigma^2 - sigma'^2): [P]. It may be negative."""
        if latents.reward_std is None:
            raise ShapeError("operator Rap requires Latents.reward_std, which is missing")
        gap = latents.reward[pairs.left] - latents.reward[pairs.right]
        variance = latents.reward_std.square()
        return self.config.reward_coefficient * (gap.square() - variance[pairs.left] - variance[pairs.right])
