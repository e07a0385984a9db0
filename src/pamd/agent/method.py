"""A method as data: all that tells DBC, MICo, SimSR, their PAMD versions and every ablation apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pamd.config import check_choice, check_positive
from pamd.errors import ConfigError
from pamd.objective import Objective

__all__ = ["Method", "Part", "Sac", "Scale"]


@dataclass(frozen=True)
class Part:
    """A registered distance or operator, by name, with its options."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sac:
    """The reinforcement-learning side, which no method changes."""

    hidden: int = 256
    gamma: float = 0.99
    learning_rate: float = 1e-3
    """Of critic, actor, encoder, distance, transition and reward decoder alike."""
    critic_tau: float = 0.005
    encoder_tau: float = 0.005
    actor_every: int = 2
    targets_every: int = 2
    temperature: float = 0.1
    temperature_learning_rate: float = 1e-3
    temperature_beta1: float = 0.9
    random_decisions: int = 1000
    """Decisions taken at random before the first update."""
    first_updates: int = 1
    """How many updates the first decision after those brings; one a decision from then on."""

    def __post_init__(self) -> None:
        check_positive(
            "sac",
            hidden=self.hidden,
            learning_rate=self.learning_rate,
            critic_tau=self.critic_tau,
            encoder_tau=self.encoder_tau,
            actor_every=self.actor_every,
            targets_every=self.targets_every,
            temperature=self.temperature,
            temperature_learning_rate=self.temperature_learning_rate,
            first_updates=self.first_updates,
        )
        if not 0 <= self.gamma < 1:
            raise ConfigError(f"sac: gamma must lie in [0, 1), got {self.gamma}")
        if self.random_decisions < 1:
            raise ConfigError(f"sac: random_decisions must be at least 1, got {self.random_decisions}")


@dataclass(frozen=True)
class Scale:
    """How large the networks and batches are: an axis of its own, apart from the method."""

    name: str = "paper"
    size: int = 84
    filters: int = 32
    strides: tuple[int, ...] = (2, 1, 1, 1)
    batch: int = 128
    frame_stack: int = 3
    random_shift: int = 0
    """Pixels by which observations are shifted at random (DrQ's augmentation); 0: off, as in the paper."""

    def __post_init__(self) -> None:
        check_positive("scale", size=self.size, filters=self.filters, batch=self.batch, frame_stack=self.frame_stack)
        if not self.strides or min(self.strides) < 1:
            raise ConfigError(f"scale: strides must be one or more whole numbers of at least 1, got {self.strides}")
        if not 0 <= self.random_shift < self.size:
            raise ConfigError(f"scale: random_shift must lie in [0, size), got {self.random_shift}")


@dataclass(frozen=True)
class Method:
    """Pair states, measure their latents with a distance, build a target with an operator, regress one on the other."""

    name: str
    fidelity: Literal["paper", "released"]
    family: Literal["bisimulation", "independent"]
    """Which column of the paper's action-repeat table applies."""

    distance: Part | None = None
    """None: no metric loss."""
    operator: Part | None = None
    objective: Objective = field(default_factory=Objective)
    target_distance: Literal["online", "ema"] = "online"
    """Which copy of the distance measures next states."""
    target_encoder: Literal["online", "ema", "periodic"] = "ema"
    """Whose latents the metric target is built from; "periodic" is a copy made every `target_period` decisions."""
    target_period: int = 8000
    metric_in: Literal["representation", "critic"] = "representation"
    """Which step of the sequential schedule carries the metric loss."""

    latent_dim: int = 50
    latent_space: Literal["layernorm", "sphere"] = "layernorm"
    transition: Literal["none", "deterministic", "gaussian", "ensemble"] = "none"
    ensemble: int = 5
    """Members of an ensemble transition."""
    next_latent_encoder: Literal["online", "ema"] = "ema"
    """Whose latents of next states the transition learns to predict."""
    reward_decoder: bool = False
    """A reward decoder on the predicted next latent."""
    critic_weight: float = 1.0
    transition_weight: float = 1.0
    reward_weight: float = 1.0
    weight_decay: float = 1e-7
    """Of transition and reward decoder."""

    isolate_metric: bool = False
    """A second encoder learns from the metric loss alone, beside an agent that has no metric loss: so the metric is
    measured apart from its use."""
    schedule: Literal["sequential", "joint"] = "sequential"
    """Critic step, then transition + metric step; or one backward pass for all losses, one optimiser state."""
    sac: Sac = field(default_factory=Sac)

    def __post_init__(self) -> None:
        what = f"method {self.name!r}"
        check_positive(what, latent_dim=self.latent_dim, ensemble=self.ensemble, target_period=self.target_period)
        check_choice(what, "schedule", self.schedule, ("sequential", "joint"))
        if (self.distance is None) != (self.operator is None):
            raise ConfigError(f"{what}: a distance needs an operator, and an operator a distance")
        if self.isolate_metric and self.distance is None:
            raise ConfigError(f"{what}: isolate_metric needs a metric loss, and this method has none")
        if self.reward_decoder and self.transition == "none":
            raise ConfigError(f"{what}: the reward decoder reads the predicted next latent; it needs a transition")
        if self.target_encoder == "online" and self.objective.right == "target":
            raise ConfigError(f'{what}: right="target" needs a target_encoder of "ema" or "periodic"')
