"""The configuration of an agent: encoder, method, learner and schedule."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pamd.encoders import ENCODERS
from pamd.errors import ConfigError
from pamd.learners import Learner, LearnerPart
from pamd.methods import Method
from pamd.registry import Registry
from pamd.schema import Part, record

__all__ = ["AgentConfig", "EncoderPart", "Precision", "Schedule"]

Schedule = Literal["sequential", "joint"]
"""Sequential: the critic's step, then the representation's. Joint: one backward pass, one Adam state of the encoder."""
Precision = Literal["float32", "bfloat16"]
"""The precision of an update's forward passes. Weights, optimizers and acting are always float32."""


@record
class EncoderPart(Part):
    """A registered encoder with its options."""

    registry: ClassVar[Registry[Any]] = ENCODERS


@record(what="agent")
class AgentConfig:
    """The configuration of an agent."""

    encoder: EncoderPart
    method: Method
    learner: LearnerPart
    schedule: Schedule = "sequential"
    isolate_metric: bool = False
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        if self.isolate_metric and self.method.metric is None:
            raise ConfigError(f"isolate_metric requires a metric loss, and method {self.method.name!r} has none")
        if self.isolate_metric:
            _ = self.method.without("reward")  # runs its checks
        if "action_value" in self.method.operator_needs and self.learner.cls.action_value is Learner.action_value:
            raise ConfigError(
                f"learner {self.learner.name!r} has no action values, which operator 'advantage' requires;"
                " use operator 'value', or give the learner a method action_value"
            )
        operator, gamma = self.method.operator, self.learner.options.gamma
        if operator is not None and operator.options.gamma != gamma:
            raise ConfigError(
                f"learner.gamma is {gamma} but method.metric.operator.gamma is {operator.options.gamma}; they must be"
                " equal (method.metric.operator.c_T sets the weight of the next states separately)"
            )
