"""A method as data: a latent space, target copies of the encoder, and a list of terms."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import field
from typing import Any, Literal

from pamd.errors import ConfigError
from pamd.latents import Copy
from pamd.operators.base import OperatorConfig
from pamd.schema import Count, Fraction, Index, NonNegative, Positive, record
from pamd.terms import DistancePart, MetricConfig, OperatorPart, Term, TermPart, TermStep

LatentSpace = Literal["layernorm", "tanh", "sphere", "ball", "free"]
"""LayerNorm; LayerNorm then tanh; the unit sphere; a ball large enough for the targets; no normalization."""

BallRadius = Positive | Literal["rewards"]
"""A fixed radius, or the radius that the rewards seen so far require (`Method.target_bound`)."""


@record(what="target copies")
class TargetCopies:
    """How the target copies of the encoder are updated: "ema" a little and often, "periodic" at once and rarely."""

    tau: Fraction = 0.005
    """Rate at which the "ema" copies move toward the encoder and the distance."""
    every: Count = 2
    """Updates between two steps of the "ema" copies."""
    offset: Index = 0
    """Added to the update count before the comparison with `every`."""
    period: Count = 8000
    """Updates between two refreshes of the "periodic" copy."""
    period_offset: Index = 1000
    """Added to the update count before the comparison with `period`. 1000 counts from the first decision."""


@record(what="a method")
class Method:
    """A method. `pamd.method("dbc-unit+pamd")` returns the record of a name."""

    name: str
    """The name in tables and run directories."""
    fidelity: Literal["paper", "released"] = "paper"
    """Whether to follow the paper's text or the released code if they differ."""
    latent_dim: Count = 50
    """d, the number of coordinates of a latent."""
    latent_space: LatentSpace = "layernorm"
    """How latents are normalized."""
    ball_radius: BallRadius = "rewards"
    """The radius of the latent space "ball". "rewards": half of the largest value of the operator's fixed point."""
    targets: TargetCopies = field(default_factory=TargetCopies)
    """How the target copies of the encoder are updated."""
    critic_weight: NonNegative = 1.0
    """Weight of the critic's loss relative to this method's terms. Only an agent applies it."""
    terms: tuple[TermPart, ...] = ()
    """The losses, in the order in which they draw random numbers."""

    def __post_init__(self) -> None:
        what = f"method {self.name!r}"
        if len({part.name for part in self.terms}) < len(self.terms):
            raise ConfigError(f"{what}: a term occurs twice in {', '.join(part.name for part in self.terms)}")
        for cls, options in self._terms():
            cls.check(options, self)
        windows = {part.name: part.cls.window(part.options) for part in self.terms}
        read = {name: steps for name, steps in windows.items() if steps}
        if len(set(read.values())) > 1:
            lengths = ", ".join(f"{name} reads {steps} steps" for name, steps in read.items())
            raise ConfigError(f"{what}: all windows must have the same number of steps, but {lengths}")

    def _terms(self) -> Iterator[tuple[type[Term[Any]], Any]]:
        """Yield the class and the options of each term."""
        for part in self.terms:
            yield part.cls, part.options

    def term(self, name: str) -> Any | None:
        """Return the options of the term called `name`, or None if the method has no such term."""
        return next((part.options for part in self.terms if part.name == name), None)

    @property
    def metric(self) -> MetricConfig | None:
        """The options of the term "metric"."""
        return self.term("metric")

    @property
    def distance(self) -> DistancePart | None:
        """The distance of the term "metric"."""
        return None if self.metric is None else self.metric.distance

    @property
    def operator(self) -> OperatorPart | None:
        """The operator of the term "metric"."""
        return None if self.metric is None else self.metric.operator

    @property
    def operator_needs(self) -> frozenset[str]:
        """The fields of `Latents` that the operator reads, besides the reward."""
        needs: frozenset[str] = frozenset()
        return needs if self.operator is None else self.operator.cls(self.operator.options).needs

    @property
    def copies(self) -> frozenset[Copy]:
        """The target copies of the encoder that the terms read."""
        read: frozenset[Copy] = frozenset().union(*(cls.copies(options) for cls, options in self._terms()))
        return read - {"online"}

    @property
    def window(self) -> int:
        """The number of steps of the windows that the terms read; 0 if they read none."""
        return max((cls.window(options) for cls, options in self._terms()), default=0)

    @property
    def sequence(self) -> bool:
        """Whether a term reads the observations after each step of the windows."""
        return any(cls.sequence(options) for cls, options in self._terms())

    def terms_in(self, step: TermStep) -> tuple[str, ...]:
        """Return the names of the terms that a step of the sequential schedule minimizes."""
        return tuple(part.name for part in self.terms if part.cls.step(part.options) == step)

    def target_bound(self, spread: float) -> float:
        """Return the largest value of the operator's fixed point for rewards in an interval of length `spread`.

        Without an operator, the default options of operators apply. A tensor gives a tensor.
        """
        if self.operator is None:
            options = OperatorConfig()
            return options.reward_coefficient * spread / (1 - options.gamma * options.c_T)
        bound: float = self.operator.cls(self.operator.options).bound(spread)
        return bound

    @property
    def resolved(self) -> Method:
        """This method with every value that depends on other values filled in."""
        parts = (TermPart(part.name, part.cls.resolve(part.options, self)) for part in self.terms)
        return dataclasses.replace(self, terms=tuple(parts))

    def without(self, *names: str) -> Method:
        """Return this method without the terms called `names`."""
        return dataclasses.replace(self, terms=tuple(part for part in self.terms if part.name not in names))

    def with_term(self, name: str, **changes: Any) -> Method:
        """Return this method with changed options of a term that it has."""
        parts = (
            TermPart(part.name, dataclasses.replace(part.options, **changes)) if part.name == name else part
            for part in self.terms
        )
        return dataclasses.replace(self, terms=tuple(parts))

    def adapted(self, *, latent_dim: int | None = None, gamma: float | None = None) -> Method:
        """Return this method with another latent dimension or discount. None keeps the current value."""
        adapted = self if latent_dim is None else dataclasses.replace(self, latent_dim=latent_dim)
        if gamma is None or self.operator is None:
            return adapted
        options = dataclasses.replace(self.operator.options, gamma=gamma)
        return adapted.with_term("metric", operator=dataclasses.replace(self.operator, options=options))
