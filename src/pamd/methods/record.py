"""A method as data: all settings that distinguish DBC, MICo, SimSR, their PAMD versions and every ablation."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from pamd.config import Part, check_choice, check_fraction, check_positive, check_whole
from pamd.distances import DISTANCES
from pamd.errors import ConfigError
from pamd.initialization import Initialization
from pamd.models import TransitionKind, TransitionStd
from pamd.objective import Objective
from pamd.operators import OPERATORS
from pamd.operators.base import OperatorConfig
from pamd.registry import Registry
from pamd.schema import explained

__all__ = ["BallRadius", "DistancePart", "LatentSpace", "Method", "OperatorPart"]

LatentSpace = Literal["layernorm", "tanh", "sphere", "ball", "free"]
"""LayerNorm; LayerNorm then tanh; the unit sphere; a ball large enough for the targets; no normalization."""

BallRadius = float | Literal["rewards"]
"""A fixed radius, or the radius that the rewards seen so far require (`Method.target_bound`)."""

FROM_MODEL = frozenset({"next_mean", "next_std", "next_sample", "next_sample_other", "action_reward"})
"""The fields of `Latents` that come from a latent model."""


@dataclass(frozen=True)
class DistancePart(Part):
    """A registered distance with its options."""

    registry: ClassVar[Registry[Any]] = DISTANCES


@dataclass(frozen=True)
class OperatorPart(Part):
    """A registered operator with its options."""

    registry: ClassVar[Registry[Any]] = OPERATORS


@explained
@dataclass(frozen=True)
class Method:
    """A method: it pairs states, and regresses the distance between their latents on the target of an operator."""

    name: str
    """The name in tables and run directories."""
    fidelity: Literal["paper", "released"] = "paper"
    """Whether to follow the paper's text or the released code if they differ."""

    distance: DistancePart | None = None
    """The distance between latents. None: no metric loss."""
    operator: OperatorPart | None = None
    """The operator that builds the target of the metric loss."""
    objective: Objective = field(default_factory=Objective)
    """How the distance's values are regressed on targets."""
    target_distance: Literal["online", "ema"] = "online"
    """The copy of the distance that measures next states."""
    target_encoder: Literal["online", "ema", "periodic"] = "ema"
    """The copy of the encoder that computes the latents of the metric target."""
    target_period: int = 8000
    """Updates between two refreshes of the "periodic" copy of the encoder."""
    target_offset: int = 1000
    """Added to the update count before the comparison with `target_period`. 1000 counts from the first decision."""
    metric_in: Literal["representation", "critic"] = "representation"
    """The step of the sequential schedule that includes the metric loss."""

    latent_dim: int = 50
    """d, the number of coordinates of a latent."""
    latent_space: LatentSpace = "layernorm"
    """How latents are normalized."""
    ball_radius: BallRadius = "rewards"
    """The radius of the latent space "ball". "rewards": half of the largest value of the operator's fixed point."""
    project_predictions: bool | None = None
    """Whether to project predicted next latents into the latent space. None: only for the ball, which requires it."""
    transition: TransitionKind = "none"
    """The latent dynamics model."""
    ensemble: int = 5
    """Number of members of an ensemble transition."""
    transition_std: TransitionStd = "tanh"
    """How a Gaussian transition bounds its standard deviation."""
    model_init: Initialization = "orthogonal"
    """How the weights of the transition and reward models are initialized."""
    next_latent_encoder: Literal["online", "ema"] = "online"
    """The copy of the encoder that computes the next latents for the transition loss."""
    reward_decoder: bool = False
    """Whether a decoder predicts the reward from the predicted next latent."""
    state_reward: bool = False
    """Whether a model predicts the mean and standard deviation of the reward from the state's latent, for "rap"."""
    critic_weight: float = 1.0
    """Weight of the critic's loss relative to this method's losses."""
    transition_weight: float = 1.0
    """Weight of the transition loss."""
    reward_weight: float = 1.0
    """Weight of the loss of the reward decoder or of the state's reward model."""
    weight_decay: float = 1e-7
    """Weight decay of the transition and reward models."""
    encoder_tau: float = 0.005
    """Rate at which the "ema" copies follow the encoder and the distance."""
    follow_every: int = 2
    """Updates between two steps of the "ema" copies."""
    follow_offset: int = 0
    """Added to the update count before the comparison with `follow_every`."""

    def __post_init__(self) -> None:
        what = f"method {self.name!r}"
        self._check_parts(what)
        for name in ("latent_dim", "ensemble", "target_period", "follow_every"):
            check_whole(what, name, getattr(self, name), 1)
        for name in ("target_offset", "follow_offset"):
            check_whole(what, name, getattr(self, name), 0)
        check_fraction(what, "encoder_tau", self.encoder_tau)
        check_choice(what, "latent_space", self.latent_space, get_args(LatentSpace))
        check_choice(what, "transition_std", self.transition_std, get_args(TransitionStd))
        check_choice(what, "model_init", self.model_init, get_args(Initialization))
        for name in ("critic_weight", "transition_weight", "reward_weight", "weight_decay"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"{what}: {name} must be finite and at least 0, got {getattr(self, name)}")
        if self.reward_decoder and self.transition == "none":
            raise ConfigError(f"{what}: reward_decoder reads the predicted next latent and requires a transition")
        if self.reward_decoder and self.state_reward:
            raise ConfigError(f"{what}: reward_decoder cannot be combined with state_reward; both predict the reward")
        self._check_ball(what)
        self._check_metric(what)

    def _check_parts(self, what: str) -> None:
        """Raise ConfigError if a part is a name or a mapping instead of its record."""
        parts = (("distance", DistancePart), ("operator", OperatorPart), ("objective", Objective))
        for name, record in parts:
            part = getattr(self, name)
            if not isinstance(part, record) and (part is not None or name == "objective"):
                home = record.__module__.removesuffix(".record")
                raise ConfigError(
                    f"{what}: {name} must be a {home}.{record.__name__}, got {type(part).__name__};"
                    f" pamd.method(..., settings=['{name}.KEY=VALUE']) changes its options"
                )

    def _check_ball(self, what: str) -> None:
        if isinstance(self.ball_radius, str):
            check_choice(what, "ball_radius", self.ball_radius, ("rewards",))
        else:
            check_positive(what, ball_radius=self.ball_radius)
        if self.latent_space == "ball" and self.project_predictions is False:
            raise ConfigError(
                f'{what}: latent_space "ball" requires project_predictions, otherwise targets exceed the largest value'
                " of the distance; set method.project_predictions=true"
            )

    def _check_metric(self, what: str) -> None:
        if (self.distance is None) != (self.operator is None):
            raise ConfigError(f"{what}: distance and operator require each other")
        if self.distance is None or self.operator is None:
            return
        self.distance.cls.resolve(self.distance.options, self.latent_dim)  # runs its checks
        if self.target_encoder == "online" and self.objective.right == "target":
            raise ConfigError(f'{what}: objective.right="target" requires a target_encoder of "ema" or "periodic"')
        operator = self.operator.cls(self.operator.options)
        if "reward_std" in operator.needs and not self.state_reward:
            raise ConfigError(
                f"{what}: operator {self.operator.name!r} reads reward_std, which a model of the state's reward gives;"
                " set method.state_reward=true"
            )
        missing = operator.needs & FROM_MODEL if self.transition == "none" else frozenset()
        if self.transition == "deterministic":
            missing = operator.needs & {"next_std"}
        if missing:
            raise ConfigError(
                f"{what}: operator {self.operator.name!r} reads {', '.join(sorted(missing))}, which transition"
                f" {self.transition!r} does not give; set method.transition to "
                + ("gaussian or ensemble" if "next_std" in missing else "deterministic, gaussian or ensemble")
            )
        if "action_reward" in operator.needs and not self.reward_decoder:
            raise ConfigError(
                f"{what}: operator {self.operator.name!r} reads the rewards of actions that were not taken, which a"
                " reward decoder predicts; set method.reward_decoder to true"
            )
        if operator.coordinate_wise not in (None, self.distance.cls.coordinate_wise):
            kinds = ("scalars", "coordinate by coordinate")
            theirs, ours = kinds[bool(operator.coordinate_wise)], kinds[self.distance.cls.coordinate_wise]
            raise ConfigError(
                f"{what}: operator {self.operator.name!r} compares {theirs}, but distance {self.distance.name!r}"
                f" compares {ours}; set method.operator.reading or method.distance.name"
            )

    @property
    def slow_encoders(self) -> frozenset[str]:
        """The slow copies of the encoder that this method's losses read."""
        wanted = set()
        if self.distance is not None:
            wanted.add(self.target_encoder)
        if self.transition != "none":
            wanted.add(self.next_latent_encoder)
        return frozenset(wanted - {"online"})

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
    def operator_needs(self) -> frozenset[str]:
        """The fields of `Latents` that the operator reads, besides the reward."""
        if self.operator is None:
            return frozenset()
        needs: frozenset[str] = self.operator.cls(self.operator.options).needs
        return needs

    @property
    def window(self) -> int:
        """The number of steps of the windows that the operator reads; 0 if it reads none."""
        return self.operator.options.n if self.operator is not None and "z_window" in self.operator_needs else 0

    @property
    def resolved(self) -> Method:
        """This method with every value that depends on other values filled in."""
        projects = self.latent_space == "ball" if self.project_predictions is None else self.project_predictions
        changes: dict[str, Any] = {"project_predictions": projects}
        if self.distance is not None:
            options = self.distance.cls.resolve(self.distance.options, self.latent_dim)
            changes["distance"] = dataclasses.replace(self.distance, options=options)
        return dataclasses.replace(self, **changes)

    @property
    def without_metric(self) -> Method:
        """This method without its metric loss."""
        return dataclasses.replace(self, distance=None, operator=None)

    @property
    def metric_alone(self) -> Method:
        """This method without the reward decoder, for an encoder that only the metric loss trains."""
        return dataclasses.replace(self, reward_decoder=False)

    def adapted(self, *, latent_dim: int | None = None, gamma: float | None = None) -> Method:
        """Return this method with another latent dimension or discount. None keeps the current value."""
        changes: dict[str, Any] = {} if latent_dim is None else {"latent_dim": latent_dim}
        if gamma is not None and self.operator is not None:
            options = dataclasses.replace(self.operator.options, gamma=gamma)
            changes["operator"] = dataclasses.replace(self.operator, options=options)
        return dataclasses.replace(self, **changes) if changes else self
