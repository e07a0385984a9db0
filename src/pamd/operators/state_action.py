"""The state-action operator: the largest reward gap over actions, not the gap of the policy's mean rewards."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pamd.distances import Distance
from pamd.operators.base import OPERATORS, Operator, OperatorConfig, gap
from pamd.schema import Count, record
from pamd.types import Latents, Pairs


@record
class StateActionConfig(OperatorConfig):
    """The options of `state-action`."""

    actions: Count = 8
    """Number of actions from the batch for which both states are compared. More actions find larger gaps."""


@OPERATORS.register("state-action")
class StateAction(Operator[StateActionConfig]):
    """c_R max over actions of |r(s, a) - r(s', a)|, plus the discounted distance of the sampled next states.

    An on-policy target merges states with equal mean rewards, even if their rewards differ for every action. The
    model's reward decoder predicts the rewards of actions that were not taken.
    """

    Config = StateActionConfig

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"action_reward", "z_next"})

    def _gap(self, latents: Latents, pairs: Pairs) -> Tensor:
        assert latents.action_reward is not None
        return gap(latents.action_reward, pairs, self.config.reward_gap).amax(1)

    def _discrepancy(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        assert latents.z_next is not None
        return distance.between(latents.z_next, latents.z_next, pairs)
