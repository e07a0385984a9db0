"""The independently-coupled operator over n steps: it compares n rewards, then the distance of the last states."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pamd.distances import Distance
from pamd.operators.base import OPERATORS, Operator, OperatorConfig, gap
from pamd.schema import Count, record
from pamd.types import Latents, Pairs


@record
class NStepConfig(OperatorConfig):
    """The options of `n-step`."""

    n: Count = 3
    """Number of steps whose rewards are compared before the distance is used."""


@OPERATORS.register("n-step")
class NStepOperator(Operator[NStepConfig]):
    """sum over k < n of (gamma c_T)^k c_R |r_k - r'_k|, plus (gamma c_T)^n d(z_n, z'_n).

    It has the same fixed point as the operator of one step. If an episode terminates, the sum ends and no distance is
    added. If a time limit makes one window of a pair shorter, the two windows end at different times. Such a pair has
    the target of one step.
    """

    Config = NStepConfig

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"z_next", "z_window", "window_reward", "window_length", "window_not_done"})

    def _discrepancy(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        assert latents.z_next is not None
        return distance.between(latents.z_next, latents.z_next, pairs)

    def _target(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        assert latents.z_window is not None
        rewards = self._rewards(latents, pairs)
        discrepancy = distance.between(latents.z_window, latents.z_window, pairs)
        ends, continues, discount = self._ends(latents, pairs)
        if discrepancy.ndim == 2:
            rewards, ends, continues, discount = (x[:, None] for x in (rewards, ends, continues, discount))
        together = rewards + torch.where(continues, discount * discrepancy, 0)
        return torch.where(ends, together, super()._target(latents, pairs, distance))

    def _rewards(self, latents: Latents, pairs: Pairs) -> Tensor:
        """Return the discounted sum of the gaps over the steps that both windows have: [P]."""
        assert latents.window_reward is not None
        gaps = gap(latents.window_reward, pairs, self.config.reward_gap)
        k = torch.arange(gaps.shape[1], device=gaps.device)
        gaps = torch.where(k < self._steps(latents, pairs)[:, None], gaps, 0)
        return self.config.reward_coefficient * (gaps * (self.config.gamma * self.config.c_T) ** k).sum(1)

    def _ends(self, latents: Latents, pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
        """Return whether the windows end together, whether the episodes continue there, and the discount: [P] each.

        A window that terminates ends its pair: later steps of the other window are not compared.
        """
        assert latents.window_length is not None
        assert latents.window_not_done is not None
        steps, length = self._steps(latents, pairs), latents.window_length
        terminated = [
            (latents.window_not_done[side] == 0) & (length[side] == steps) for side in (pairs.left, pairs.right)
        ]
        over = terminated[0] | terminated[1]
        equal = length[pairs.left] == length[pairs.right]
        return over | equal, ~over, (self.config.gamma * self.config.c_T) ** steps.to(latents.reward.dtype)

    @staticmethod
    def _steps(latents: Latents, pairs: Pairs) -> Tensor:
        """Return the number of steps that both windows of each pair have: [P]."""
        assert latents.window_length is not None
        return torch.minimum(latents.window_length[pairs.left], latents.window_length[pairs.right])
