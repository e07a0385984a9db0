"""The policy-similarity operator (PSM): two states differ if the policy acts differently in them, now or later."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from pamd.distances import Distance
from pamd.errors import ConfigError
from pamd.operators.base import OPERATORS, Operator, OperatorConfig, gap
from pamd.schema import record
from pamd.types import Latents, Pairs


@record
class PsmConfig(OperatorConfig):
    """The options of `psm`. `reward_gap` applies to each coordinate of an action, and c_R weights their mean."""

    actions: Literal["continuous", "discrete"] = "continuous"
    """Continuous: the policy's action [B, A] in [-1, 1]; the gap is the mean over coordinates, at most 2. Discrete: the
    probabilities [B, A] of A actions; the gap is the total variation, half of the sum, at most 1."""
    next_latents: Literal["replay", "model"] = "replay"
    """The source of next latents: the sampled next states, or the latent model. Those from replay are not on-policy."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.actions == "discrete" and self.reward_gap != "abs":
            raise ConfigError(
                f"operator 'psm': actions='discrete' requires reward_gap='abs' (total variation), got"
                f" {self.reward_gap!r}"
            )


@OPERATORS.register("psm")
class Psm(Operator[PsmConfig]):
    """c_R |pi(s) - pi(s')|, plus the discounted distance of the next states. It does not read rewards."""

    Config = PsmConfig

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"policy_action", "z_next" if self.config.next_latents == "replay" else "next_sample"})

    def bound(self, spread: float) -> float:
        """Return the bound for actions in [-1, 1], or for probabilities. It does not depend on the rewards."""
        largest = {"abs": 2.0, "smooth-l1": 1.5}[self.config.reward_gap]  # of actions 1 and -1
        return super().bound(1.0 if self.config.actions == "discrete" else largest)

    def _gap(self, latents: Latents, pairs: Pairs) -> Tensor:
        assert latents.policy_action is not None
        gaps = gap(latents.policy_action, pairs, self.config.reward_gap)  # [P, A]
        return gaps.sum(-1) / 2 if self.config.actions == "discrete" else gaps.mean(-1)

    def _discrepancy(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        z_next = latents.z_next if self.config.next_latents == "replay" else latents.next_sample
        assert z_next is not None
        return distance.between(z_next, z_next, pairs)
