"""The kernel operator: k(s, s') = 1 - c_R |r - r'| + gamma E k(next, next'), as a recursion of its squared distance."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from pamd.distances import Distance
from pamd.operators.base import OPERATORS, Operator, OperatorConfig
from pamd.schema import record
from pamd.types import Latents, Pairs


@record
class KernelConfig(OperatorConfig):
    """The options of `kernel`. The published kernel has c_R = 1 / (r_max - r_min)."""

    next_latents: Literal["replay", "model"] = "replay"
    """The source of next latents. One next state from replay suffices for deterministic transitions. Otherwise the
    target requires two samples of each next state, which the latent model draws."""
    squared: bool = True
    """Whether the distance's values are d^2, for which the target is unbiased, or d."""


@OPERATORS.register("kernel")
class Kernel(Operator[KernelConfig]):
    """d^2 = k(s, s) + k(s', s') - 2 k(s, s') = 2 c_R |r - r'| + gamma c_T (d^2 of the next states, spread removed).

    The spread of each next state, half the mean d^2 between two samples of it, distinguishes it from MICo's operator.
    """

    Config = KernelConfig

    @property
    def needs(self) -> frozenset[str]:
        from_model = {"next_sample", "next_sample_other"}
        return frozenset({"z_next"} if self.config.next_latents == "replay" else from_model)

    def bound(self, spread: float) -> float:
        squared = 2 * super().bound(spread)
        return squared if self.config.squared else squared**0.5

    def _gap(self, latents: Latents, pairs: Pairs) -> Tensor:
        return 2 * super()._gap(latents, pairs)

    def _discrepancy(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        if self.config.next_latents == "replay":
            assert latents.z_next is not None
            return self._squared(distance.between(latents.z_next, latents.z_next, pairs))
        one, other = latents.next_sample, latents.next_sample_other
        assert one is not None
        assert other is not None
        spread = self._squared(distance(one, other))
        # Use two samples, so that a state that is paired with itself has distance 0.
        apart = self._squared(distance.between(one, other, pairs))
        return apart - (spread[pairs.left] + spread[pairs.right]) / 2

    def _target(self, latents: Latents, pairs: Pairs, distance: Distance[Any]) -> Tensor:
        squared = super()._target(latents, pairs, distance)
        return squared if self.config.squared else squared.clamp(min=0).sqrt()

    def _squared(self, value: Tensor) -> Tensor:
        return value if self.config.squared else value.square()
