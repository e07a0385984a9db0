"""The base class of operators: (T d)(s, s') = c_R * gap(r, r') + gamma * c_T * D(next, next'; d)."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Literal, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from pamd.distances import Distance
from pamd.errors import ConfigError, ShapeError, UnknownNameError
from pamd.registry import Registry
from pamd.schema import Discount, NonNegative, record
from pamd.types import Latents, Pairs


@record(what="operator")
class OperatorConfig:
    """The options that every operator has."""

    gamma: Discount = 0.99
    """The discount factor."""
    reward_gap: Literal["abs", "smooth-l1"] = "abs"
    """The reward gap: |r - r'|, or its Huber loss with threshold 1."""
    c_R: NonNegative | Literal["1-gamma"] = 1.0  # noqa: N815  The paper's symbol.
    """The coefficient of the reward gap. 1 in the paper; "1-gamma" keeps the fixed point within the reward range."""
    c_T: NonNegative = 1.0  # noqa: N815
    """The coefficient of the discrepancy of the next states, in addition to gamma."""

    def __post_init__(self) -> None:
        if not self.c_T * self.gamma < 1:
            raise ConfigError(
                "operator: gamma * c_T must lie in [0, 1), otherwise the operator is not a contraction;"
                f" got {self.gamma} * {self.c_T}"
            )

    @property
    def reward_coefficient(self) -> float:
        """c_R as a number."""
        return 1 - self.gamma if isinstance(self.c_R, str) else self.c_R


OperatorConfigT = TypeVar("OperatorConfigT", bound=OperatorConfig)

_INPUTS = frozenset(field.name for field in dataclasses.fields(Latents))
"""The inputs that an operator can name in `needs`."""


class Operator(ABC, Generic[OperatorConfigT]):
    """Builder of regression targets. A subclass is final and defines `Config`, `needs` and `_discrepancy`.

    Its `Config` extends `pamd.OperatorConfig`. docs/howto/operator.md has an example.
    """

    Config: ClassVar[type[Any]]

    def __init__(self, config: OperatorConfigT) -> None:
        self.config = config

    @property
    @abstractmethod
    def needs(self) -> frozenset[str]:
        """The fields of `Latents` that this operator requires, besides the reward."""

    @property
    def coordinate_wise(self) -> bool | None:
        """Optional hook: whether targets are [P, d], one per coordinate. None: the shape of the distance's values."""
        return None

    def _gap(self, latents: Latents, pairs: Pairs) -> Tensor:
        """Return the gap of the states without their next states: [P]. Optional hook; by default the reward gap."""
        return gap(latents.reward, pairs, self.config.reward_gap)

    @abstractmethod
    def _discrepancy(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        """Return the discrepancy of the next states: [P], or [P, d]."""

    @torch.no_grad()
    def target(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        """Return c_R * gap + gamma * c_T * discrepancy, without gradient: [P], or [P, d] if coordinate-wise.

        `distance` measures the target side. It is the online distance or a slow copy of it. A terminated state has no
        next state, so the discrepancy of a pair counts only if `latents.not_done` is 1 for both states.
        """
        self.check_inputs(latents)
        return self._target(latents, pairs, distance).detach()  # no_grad does not stop forward-mode derivatives

    def check_inputs(self, latents: Latents) -> None:
        """Raise ShapeError if `latents` lacks an input. Inputs that are computed on first use are computed here."""
        for name in sorted(self.needs):
            if name not in _INPUTS:
                raise UnknownNameError(f"input of operator {type(self).__name__}", name, _INPUTS)
            if getattr(latents, name) is None:
                raise ShapeError(f"operator {type(self).__name__} requires Latents.{name}, which is missing")

    def compared(
        self, value: Tensor, target: Tensor, latents: Latents, pairs: Pairs, distance: Distance[Any]
    ) -> tuple[Tensor, Tensor]:
        """Return the two sides of the regression. Optional hook; by default the distance's values and the target."""
        return value, target

    def _target(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        """Compute `target` for checked latents. Optional hook; by default the target of one step."""
        near = self.config.reward_coefficient * self._gap(latents, pairs)
        discounted = self.config.gamma * self.config.c_T * self._discrepancy(latents, pairs, distance)
        continues = None if latents.not_done is None else latents.not_done[pairs.left] * latents.not_done[pairs.right]
        if discounted.ndim == 2:
            near, continues = near[:, None], None if continues is None else continues[:, None]
        return near + (discounted if continues is None else continues * discounted)

    def bound(self, spread: float) -> float:
        """Return the largest value of the fixed point for rewards in an interval of length `spread`. Optional hook."""
        return self.config.reward_coefficient * spread / (1 - self.config.gamma * self.config.c_T)

    def check(self, distance: Distance[Any] | type[Distance[Any]]) -> None:
        """Raise ConfigError if the values of `distance` and the targets of this operator differ in shape."""
        if self.coordinate_wise in (None, distance.coordinate_wise):
            return
        cls = distance if isinstance(distance, type) else type(distance)
        shapes = {True: "[P, d], one per coordinate", False: "[P]"}
        raise ConfigError(
            f"distance {cls.__name__} cannot be combined with operator {self!r}: its values are"
            f" {shapes[distance.coordinate_wise]}, the targets {shapes[not distance.coordinate_wise]}"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config!r})"


def gap(x: Tensor, pairs: Pairs, kind: str) -> Tensor:
    """Return |x - x'| or its Huber loss (threshold 1). x: [B, ...] -> [P, ...]."""
    left, right = x[pairs.left], x[pairs.right]
    return (left - right).abs() if kind == "abs" else F.smooth_l1_loss(left, right, reduction="none")


OPERATORS: Registry[type[Operator[Any]]] = Registry("operator", "pamd.operators", with_config=True)
