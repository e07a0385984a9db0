"""Value and advantage operators: the target is the gap between the learner's values of two states."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pamd.distances import Distance
from pamd.errors import ConfigError
from pamd.operators.base import OPERATORS, Operator, OperatorConfig, gap
from pamd.schema import record
from pamd.types import Latents, Pairs


@record
class ValueConfig(OperatorConfig):
    """The options of `value` and `advantage`. `reward_gap` applies to values, and c_R weights it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.c_T != 1:
            raise ConfigError(
                f"operators 'value' and 'advantage' read no next states: c_T must be 1, got {self.c_T}; set c_R instead"
            )


class _Values(Operator[ValueConfig]):
    """An operator whose values include the next states. A subclass is final and defines `needs` and `_gap`."""

    Config = ValueConfig

    @property
    def coordinate_wise(self) -> bool:
        return False

    def _discrepancy(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        return latents.reward.new_zeros(len(pairs))


@OPERATORS.register("value")
class Value(_Values):
    """c_R |V(s) - V(s')|, where V is the learner's value of its own action. V includes the next states."""

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"value"})

    def _gap(self, latents: Latents, pairs: Pairs) -> Tensor:
        assert latents.value is not None
        return gap(latents.value, pairs, self.config.reward_gap)


@OPERATORS.register("advantage")
class Advantage(_Values):
    """c_R |A(s, a) - A(s', a')| for the actions that were taken, with A(s, a) = Q(s, a) - V(s)."""

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"value", "action_value"})

    def bound(self, spread: float) -> float:
        return 2 * super().bound(spread)  # an advantage may have either sign

    def _gap(self, latents: Latents, pairs: Pairs) -> Tensor:
        assert latents.value is not None
        assert latents.action_value is not None
        return gap(latents.action_value - latents.value, pairs, self.config.reward_gap)
