"""The one base of all operators: (T d)(s, s') = c_R * gap(r, r') + gamma * c_T * D(next, next'; d)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from pamd.config import check_choice
from pamd.distances import Distance
from pamd.errors import ConfigError, ShapeError
from pamd.registry import Registry
from pamd.types import Latents, Pairs

__all__ = ["OPERATORS", "Operator", "OperatorConfig", "reward_gap"]


@dataclass(frozen=True)
class OperatorConfig:
    gamma: float = 0.99
    reward_gap: Literal["abs", "smooth-l1"] = "abs"
    reward_weight: float | Literal["1-gamma"] = 1.0
    """c_R. 1 in the paper; "1-gamma" keeps the fixed point within the range of the reward gap."""
    transition_weight: float = 1.0
    """c_T, beside gamma."""

    def __post_init__(self) -> None:
        if not 0 <= self.gamma < 1:
            raise ConfigError(f"operator: gamma must lie in [0, 1), got {self.gamma}")
        check_choice("an operator", "reward_gap", self.reward_gap, ("abs", "smooth-l1"))
        if isinstance(self.reward_weight, str):
            check_choice("an operator", "reward_weight", self.reward_weight, ("1-gamma",))
        elif not 0 <= self.reward_weight < float("inf"):
            raise ConfigError(f"operator: reward_weight must be finite and at least 0, got {self.reward_weight}")
        if not (self.transition_weight >= 0 and self.transition_weight * self.gamma < 1):
            raise ConfigError(
                "operator: gamma * transition_weight must lie in [0, 1), else the operator is no contraction;"
                f" got {self.gamma} * {self.transition_weight}"
            )

    @property
    def c_R(self) -> float:
        return 1 - self.gamma if isinstance(self.reward_weight, str) else self.reward_weight


OperatorConfigT = TypeVar("OperatorConfigT", bound=OperatorConfig)


class Operator(ABC, Generic[OperatorConfigT]):
    """Builds regression targets. A subclass gives `Config`, `needs` and `_discrepancy`; it is final."""

    Config: ClassVar[type[Any]]

    def __init__(self, config: OperatorConfigT) -> None:
        self.config = config

    @property
    @abstractmethod
    def needs(self) -> frozenset[str]:
        """Which fields of `Latents` this operator reads, besides the reward."""

    @abstractmethod
    def _discrepancy(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        """How far apart the next states are: [P], or [P, d]."""

    @torch.no_grad()
    def target(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        """c_R * gap + gamma * c_T * discrepancy, without gradient: [P] ([P, d] where the comparison is per coordinate).

        `distance` is the one on the target side: the online distance or a slow copy of it, as the caller likes.
        """
        for name in sorted(self.needs):
            if getattr(latents, name) is None:
                raise ShapeError(f"operator {type(self).__name__} needs Latents.{name}, which is missing")
        gap = self.config.c_R * reward_gap(latents.reward, pairs, self.config.reward_gap)
        onward = self._discrepancy(latents, pairs, distance)
        if onward.ndim == 2:
            gap = gap[:, None]
        return gap + self.config.gamma * self.config.transition_weight * onward


def reward_gap(reward: Tensor, pairs: Pairs, kind: str) -> Tensor:
    """|r - r'| or its Huber (threshold 1). reward: [B] -> [P]."""
    left, right = reward[pairs.left], reward[pairs.right]
    return (left - right).abs() if kind == "abs" else F.smooth_l1_loss(left, right, reduction="none")


OPERATORS: Registry[type[Operator[Any]]] = Registry("operator", "pamd.operators")
