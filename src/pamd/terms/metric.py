"""The metric term (eq:metric_loss): pairs of states, the distance of their latents, and an operator's target."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.distances import DISTANCES, Distance
from pamd.errors import ConfigError, DtypeError, ShapeError
from pamd.latents import BatchLatents, Copy
from pamd.operators import OPERATORS, Operator
from pamd.optimization import expectile_loss, target_copy
from pamd.registry import Registry
from pamd.schema import Level, NonNegative, Part, record
from pamd.terms.base import TERMS, Term, TermStep
from pamd.terms.reward import Reward
from pamd.terms.state_reward import StateReward
from pamd.terms.transition import Transition
from pamd.types import Batch, Latents, Loss, Measurement, Pairs, Window, one_per_row


@record
class DistancePart(Part):
    """A registered distance with its options."""

    registry: ClassVar[Registry[Any]] = DISTANCES


@record
class OperatorPart(Part):
    """A registered operator with its options."""

    registry: ClassVar[Registry[Any]] = OPERATORS


@record(what="the objective")
class Objective:
    """How the distance's values are regressed on targets: the options of `metric_loss`."""

    pairing: Literal["permutation", "all"] = "permutation"
    """B pairs from one random permutation, or all B x B pairs."""
    right: Literal["online", "target"] = "online"
    """The encoder of the right-hand state. "target" carries no gradient."""
    regression: Literal["mse", "smooth-l1", "expectile"] = "mse"
    """The squared error, the Huber loss with threshold 1, or the squared error with the weights of `expectile`."""
    weight: NonNegative = 1.0
    """The weight of the whole metric term in the total loss."""
    penalty_sign: Literal[1, -1] = 1
    """1: add the distance's penalty (PAMD then favors anisotropy). -1: subtract it (PAMD then favors isotropy)."""
    expectile: Level = 0.7
    """tau of regression "expectile": an error is weighted by tau if the target is above the value, else by 1 - tau."""


@record(what="term 'metric'")
class MetricConfig(Objective):
    """The options of `metric`."""

    distance: DistancePart = field(default_factory=lambda: DistancePart("pamd"))
    """The distance between latents."""
    operator: OperatorPart = field(default_factory=lambda: OperatorPart("independent"))
    """The operator that builds the target."""
    target_distance: Literal["online", "ema"] = "online"
    """The copy of the distance that measures next states."""
    target_encoder: Literal["online", "ema", "periodic"] = "ema"
    """The copy of the encoder that computes the latents of the target."""
    in_step: TermStep = "representation"
    """The step of the sequential schedule that includes this term."""
    terminations: bool = True
    """Whether the target of a pair has no discounted part if one of its episodes terminated. The released code ignores
    terminations."""


@TERMS.register("metric")
class Metric(Term[MetricConfig]):
    """The regression of the distance between latents on the target of an operator.

    Gradients reach only the distance and `latents.z`. The target has none.
    """

    Config = MetricConfig

    def __init__(self, config: MetricConfig, latent_dim: int, action_dim: int) -> None:
        super().__init__(config, latent_dim, action_dim)
        self.distance: Distance[Any] = config.distance.cls(latent_dim, config.distance.options)
        self.operator: Operator[Any] = config.operator.cls(config.operator.options)
        self.target_distance: Distance[Any] | None = None
        if config.target_distance == "ema":
            self.target_distance = target_copy(self.distance)
            self.targets = ((self.target_distance, self.distance),)

    def loss(self, latents: BatchLatents, batch: Batch) -> Loss:
        return metric_loss(
            self.inputs(latents),
            self.distance,
            self.operator,
            self.config,
            target_distance=self.target_distance,
            generator=latents.generator,
        )

    def inputs(self, latents: BatchLatents) -> MetricInputs:
        """Return the inputs of the distance and the operator for a batch."""
        return MetricInputs(latents, self.operator, self.config.target_encoder, self.config.terminations)

    def train(self, mode: bool = True) -> Metric:
        """Set the mode, but keep the target distance in evaluation mode."""
        super().train(mode)
        if self.target_distance is not None:
            self.target_distance.eval()
        return self

    @classmethod
    def step(cls, config: MetricConfig) -> TermStep:
        return config.in_step

    @classmethod
    def copies(cls, config: MetricConfig) -> frozenset[Copy]:
        return frozenset({config.target_encoder})

    @classmethod
    def window(cls, config: MetricConfig) -> int:
        operator: Operator[Any] = config.operator.cls(config.operator.options)
        return config.operator.options.n if "z_window" in operator.needs else 0

    @classmethod
    def resolve(cls, config: MetricConfig, method: Any) -> MetricConfig:
        options = config.distance.cls.resolve(config.distance.options, method.latent_dim)
        return dataclasses.replace(config, distance=dataclasses.replace(config.distance, options=options))

    @classmethod
    def check(cls, config: MetricConfig, method: Any) -> None:
        what, name = f"method {method.name!r}", config.operator.name
        config.distance.cls.resolve(config.distance.options, method.latent_dim)  # runs its checks
        if config.target_encoder == "online" and config.right == "target":
            raise ConfigError(f'{what}: metric.right="target" requires a target_encoder of "ema" or "periodic"')
        operator = config.operator.cls(config.operator.options)
        if "reward_std" in operator.needs and method.term("state-reward") is None:
            raise ConfigError(
                f"{what}: operator {name!r} reads reward_std, which a model of the state's reward gives;"
                " add the term 'state-reward' (--set method.state-reward={})"
            )
        transition = method.term("transition")
        missing = operator.needs & _FROM_TRANSITION if transition is None else frozenset()
        if transition is not None and transition.kind == "deterministic":
            missing = operator.needs & {"next_std"}
        if missing:
            kinds = ("gaussian", "ensemble") if "next_std" in missing else ("deterministic", "gaussian", "ensemble")
            reads = f"{what}: operator {name!r} reads {', '.join(sorted(missing))}"
            if transition is None:
                raise ConfigError(
                    f"{reads}, which the term 'transition' predicts; add it (--set"
                    f' method.transition={{"kind": "{kinds[0]}"}}), or drop the metric, too (--set method.metric=null)'
                )
            raise ConfigError(
                f"{reads}, which transition {transition.kind!r} does not give; set method.transition.kind to"
                f" {' or '.join(kinds)}"
            )
        if "action_reward" in operator.needs and method.term("reward") is None:
            raise ConfigError(
                f"{what}: operator {name!r} reads the rewards of actions that were not taken, which the term 'reward'"
                " predicts; add it (--set method.reward={})"
            )
        if operator.coordinate_wise not in (None, config.distance.cls.coordinate_wise):
            kinds = ("scalars", "coordinate by coordinate")
            theirs, ours = kinds[bool(operator.coordinate_wise)], kinds[config.distance.cls.coordinate_wise]
            raise ConfigError(
                f"{what}: operator {name!r} compares {theirs}, but distance {config.distance.name!r}"
                f" compares {ours}; set method.metric.operator.per_coordinate or method.metric.distance.name"
            )


_FROM_TRANSITION = frozenset({"next_mean", "next_std", "next_sample", "next_sample_other", "action_reward"})
"""The inputs that the term "transition" computes."""


class _NextState(NamedTuple):
    """One member's prediction of the next latents, without gradient."""

    mean: Tensor
    """[B, d]"""
    std: Tensor | None
    """[B, d]; None for a point prediction"""
    sample: Tensor
    """[B, d]"""
    other_sample: Tensor | None
    """[B, d]: a second, independent sample, if the operator reads one"""


class MetricInputs:
    """The inputs of a metric loss, each computed when it is read: the fields of `Latents`. Only `z` has a gradient.

    `copy` is the copy of the encoder that computes the latents of the target. Without `terminations`, `not_done` is
    None. An operator with an input of its own computes it from `latents`: the batch, any latent, the networks of other
    terms (`latents.terms`), and what the caller gave (`latents.given`).
    """

    def __init__(self, latents: BatchLatents, operator: Operator[Any], copy: Copy, terminations: bool = True) -> None:
        self.latents, self._operator, self._copy, self._terminations = latents, operator, copy, terminations
        self.weight: Tensor | None = None
        self._stored_next: _NextState | None = None

    def __len__(self) -> int:
        return len(self.latents.batch)

    @property
    def z(self) -> Tensor:
        return self.latents.z

    @property
    def reward(self) -> Tensor:
        return self.latents.batch.reward

    @property
    def z_target(self) -> Tensor:
        return self.latents.latent("obs", self._copy)

    @property
    def z_next(self) -> Tensor:
        return self.latents.latent("next_obs", self._copy)

    @property
    def next_mean(self) -> Tensor:
        return self._next.mean

    @property
    def next_std(self) -> Tensor | None:
        return self._next.std

    @property
    def next_sample(self) -> Tensor:
        return self._next.sample

    @property
    def next_sample_other(self) -> Tensor | None:
        return self._next.other_sample

    @property
    def _next(self) -> _NextState:
        """The next state, drawn once. All operators draw the sample, so that they use the same random numbers."""
        # Not a cached_property: Python 3.11 takes a lock in it, which torch.compile cannot trace.
        if self._stored_next is None:
            self._stored_next = self._draw_next()
        return self._stored_next

    def _draw_next(self) -> _NextState:
        latents, generator = self.latents, self.latents.generator
        transition: Transition = latents.terms["transition"]
        if self._copy == "online":  # the transition loss shares this prediction, with its gradient
            chosen = transition.prediction(latents).member(generator)
        else:
            with torch.no_grad():
                z = latents.latent("obs", self._copy)
                chosen = transition.predict_by_one(latents, z, latents.batch.action)
        with torch.no_grad():
            sample = chosen.sample(generator)
            other = chosen.sample(generator).detach() if "next_sample_other" in self._operator.needs else None
            std = None if chosen.log_std is None else chosen.log_std[0].exp().detach()
        return _NextState(chosen.mean[0].detach(), std, sample.detach(), other)

    @property
    def reward_std(self) -> Tensor:
        model: StateReward = self.latents.terms["state-reward"]

        def compute() -> Tensor:
            with torch.no_grad():
                return model.predict(self.z_target)[1]

        return self.latents.once("reward std", compute)

    @property
    def action_reward(self) -> Tensor:
        actions = self.latents.batch.action[: self._operator.config.actions]
        reward: Reward = self.latents.terms["reward"]
        return self.latents.once("action rewards", lambda: reward.action_rewards(self.latents, self.z_target, actions))

    @property
    def not_done(self) -> Tensor | None:
        not_done = self.latents.given("not_done") if self._terminations else None
        return None if not_done is None else one_per_row("not_done", not_done, len(self))

    @property
    def value(self) -> Tensor:
        return self._value("value", "V(s), the learner's value")

    @property
    def action_value(self) -> Tensor:
        return self._value("action_value", "Q(s, a), the learner's value of the action")

    @property
    def policy_action(self) -> Tensor:
        action = self._given("policy_action", "pi(s), the policy's action")
        if action.ndim != 2 or len(action) != len(self):
            raise ShapeError(f"policy_action must be [{len(self)}, A], got {list(action.shape)}")
        return action

    def _value(self, name: str, meaning: str) -> Tensor:
        return one_per_row(name, self._given(name, meaning), len(self))

    def _given(self, name: str, meaning: str) -> Tensor:
        """Return an input from the caller. An agent runs its networks for it only once, because it is kept."""

        def read() -> Tensor:
            given = self.latents.given(name)
            if given is None:
                raise self._missing(name, meaning)
            return given.detach().float()

        return self.latents.once(f"given {name}", read)

    @property
    def z_window(self) -> Tensor:
        return self.latents.latent("window_obs", self._copy)

    @property
    def window_reward(self) -> Tensor:
        return self._window.reward

    @property
    def window_length(self) -> Tensor:
        return self._window.length

    @property
    def window_not_done(self) -> Tensor:
        return self._window.not_done

    @property
    def _window(self) -> Window:
        if self.latents.batch.window is None:
            raise self._missing("window", "the steps after each transition (`Replay.sample(..., window=n)`)")
        return self.latents.batch.window

    def _missing(self, name: str, meaning: str) -> ConfigError:
        return ConfigError(
            f"operator {type(self._operator).__name__} reads {meaning}; pass inputs=OperatorInputs({name}=...) with the"
            " batch (an Agent does so by itself)"
        )


def make_pairs(pairing: str, batch: int, generator: torch.Generator | None, device: torch.device) -> Pairs:
    """Return the pairs of a batch of B rows under `pairing`."""
    if pairing == "all":
        return Pairs.all(batch, device)
    return Pairs.permutation(batch, generator, device)


def metric_loss(
    latents: Latents | MetricInputs,
    distance: Distance[Any] | nn.Module,
    operator: Operator[Any],
    objective: Objective | None = None,
    *,
    target_distance: Distance[Any] | nn.Module | None = None,
    generator: torch.Generator | None = None,
) -> Loss:
    """Return the weighted metric loss of a batch with the penalty. Gradients reach only `latents.z` and `distance`.

    `target_distance` measures next states (default: `distance`, without gradient). `generator` draws the pairs and the
    randomness of a randomized penalty; by default, torch's global generator does. Either distance may be wrapped
    (DistributedDataParallel, torch.compile). The measured side then runs through the wrapper, the target side does not.
    """
    objective, latents = objective or Objective(), cast(Latents, latents)  # both kinds have the same fields
    target_side = _unwrapped(distance if target_distance is None else target_distance)
    _check_shapes(_unwrapped(distance), target_side, operator)
    # The inputs are computed before the pairs are drawn, so that noise and pairs come from the generator in this order.
    operator.check_inputs(latents)
    pairs = make_pairs(objective.pairing, len(latents), generator, latents.z.device)
    z_right = latents.z
    if objective.right == "target":
        if latents.z_target is None:
            raise ShapeError('the objective has right="target", but Latents.z_target is missing')
        z_right = latents.z_target.detach()
    target = operator.target(latents, pairs, target_side)
    measured = _measure(distance, latents.z, z_right, pairs, generator)
    if measured.value.shape != target.shape:
        raise ShapeError(
            f"distance {type(_unwrapped(distance)).__name__} has values {list(measured.value.shape)}, but operator"
            f" {type(operator).__name__} has targets {list(target.shape)}; they must agree"
        )
    compared = operator.compared(measured.value, target, latents, pairs, target_side)
    residual = _regress(*compared, objective, _pair_weight(latents, pairs))
    loss = objective.weight * (residual + objective.penalty_sign * measured.penalty)
    metrics = {
        "metric_loss": residual.detach(),
        "penalty": measured.penalty.detach(),
        "target_mean": target.detach().mean(),
        "target_max": target.detach().max(),
        **measured.stats,
    }
    return Loss(loss, metrics)


def _unwrapped(distance: nn.Module) -> Distance[Any]:
    """Return the distance inside its wrappers."""
    inner: Any = distance
    while not isinstance(inner, Distance):
        inner = getattr(inner, "module", getattr(inner, "_orig_mod", None))
        if inner is None:
            raise DtypeError(
                f"the metric loss requires a pamd.Distance, bare or wrapped, got {type(distance).__name__}"
            )
    return inner


def _check_shapes(distance: Distance[Any], target_side: Distance[Any], operator: Operator[Any]) -> None:
    """Raise ConfigError, before any computation, unless values and targets agree in shape."""
    operator.check(distance)
    if operator.coordinate_wise is None and distance.coordinate_wise != target_side.coordinate_wise:
        raise ConfigError(
            f"distance {type(distance).__name__} cannot be combined with target_distance"
            f" {type(target_side).__name__}: one has values [P], the other [P, d]"
        )


def _measure(
    distance: nn.Module, z: Tensor, z_right: Tensor, pairs: Pairs, generator: torch.Generator | None
) -> Measurement:
    if isinstance(distance, Distance):
        return distance.measure_between(z, z_right, pairs, generator)
    # A wrapper reduces gradients only for computations that ran through its own forward.
    measured: Measurement = distance(z[pairs.left], z_right[pairs.right], measured=True, generator=generator)
    return measured


def _pair_weight(latents: Latents, pairs: Pairs) -> Tensor | None:
    """Return the mean of the two sample weights of each pair: [P], or None if the batch has no weights."""
    if latents.weight is None:
        return None
    weight = latents.weight.detach()
    return (weight[pairs.left] + weight[pairs.right]) / 2


def _regress(value: Tensor, target: Tensor, objective: Objective, weight: Tensor | None) -> Tensor:
    """Return the mean error over pairs (and coordinates): []. weight [P] is relative to its mean; 0 if all are 0."""
    error: Callable[..., Tensor] = F.mse_loss if objective.regression == "mse" else F.smooth_l1_loss
    if objective.regression == "expectile":
        error = functools.partial(expectile_loss, level=objective.expectile)
    if weight is None:
        return error(value, target)
    error_of_pair = error(value, target, reduction="none").view(len(weight), -1).mean(-1)  # coordinates averaged
    total = weight.sum()
    return (weight * error_of_pair).sum() / torch.where(total == 0, 1, total)
