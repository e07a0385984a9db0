"""The base class of learners. A learner acts on an encoder's features and learns values from its latents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import field
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from pamd.augmentations import AugmentationPart
from pamd.latents import BatchLatents
from pamd.learners.dormancy import Drm
from pamd.methods import LatentSpace
from pamd.registry import Registry
from pamd.representation import LatentEncoder
from pamd.representation.meters import dormant_ratio, hidden_activations
from pamd.schema import Count, Discount, Part, Positive, record
from pamd.types import Batch, Loss


@record(what="learner")
class LearnerConfig:
    """The options of every learner. A learner's own config adds its fields and may change the defaults."""

    gamma: Discount = 0.99
    """Discount factor."""
    learning_rate: Positive = 1e-3
    """Adam's learning rate for every network, including the encoder and the representation."""
    batch: Count = 128
    """Transitions per update."""
    random_decisions: Count = 1000
    """Decisions taken at random before the first update."""
    first_updates: Count | None = None
    """Updates at the last random decision, when learning begins. The default follows `updates_per_decision`."""
    burst_every_update: bool = False
    """Whether steps that normally run every few updates run at each of the `first_updates`."""
    updates_per_decision: Positive = 1.0
    """Updates per decision: 0.5 is one update every second decision, 2 is two updates per decision."""
    n_step: Count = 1
    """Number of steps of the critic's return. The metric's target has its own (operator "n-step")."""
    augmentation: AugmentationPart = field(default_factory=lambda: AugmentationPart("none"))
    """The augmentation of observations before an update."""
    layer_norm: bool = False
    """Whether the hidden layers of the actor and the critic have LayerNorm."""

    def updates_due(self, decisions: int) -> int:
        """Return the number of updates after decision number `decisions`."""
        past = decisions - self.random_decisions
        if past < 0:
            return 0
        if past == 0 and self.first_updates is not None:
            return self.first_updates
        return int((past + 1) * self.updates_per_decision) - int(past * self.updates_per_decision)

    def in_burst(self, updates: int) -> bool:
        """Return whether update number `updates`, counted from 1, is one of the first ones, which skip no step."""
        return self.burst_every_update and updates <= (self.first_updates or 0)


class Step(NamedTuple):
    """The progress of a run, on which a learner's schedules depend."""

    decisions: int
    """Decisions taken so far."""
    updates: int
    """Updates made so far, including the current one."""


ConfigT = TypeVar("ConfigT", bound=LearnerConfig)


class Learner(nn.Module, ABC, Generic[ConfigT]):
    """An actor and a critic on one encoder. A subclass is final. A new learner is one new file.

    The critic's loss trains the encoder. The actor reads features or latents without gradient.
    """

    Config: ClassVar[type[Any]]
    latent_space: ClassVar[LatentSpace] = "layernorm"
    """The latent space if the method does not set one (method "none")."""
    target_encoder: ClassVar[bool] = False
    """Whether `critic_loss` reads the "ema" copy of the encoder."""

    def __init__(self, config: ConfigT, encoder: LatentEncoder, action_dim: int) -> None:
        super().__init__()
        self.config, self.action_dim = config, action_dim
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self.drm: Drm | None = None

    @abstractmethod
    def make_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Return the optimizers that `update_policy` steps, by name. The networks are already on their device."""

    @abstractmethod
    def critic_parameters(self) -> Iterable[nn.Parameter]:
        """Return the parameters that are trained together with the encoder."""

    @abstractmethod
    def act(self, features: Tensor, *, explore: bool, step: Step, generator: torch.Generator) -> Tensor:
        """Return actions [B, A] in [-1, 1] for features [B, F]: sampled to explore, else the policy's mode."""

    @abstractmethod
    def value(self, features: Tensor, z: Tensor) -> Tensor:
        """Return the value [B] of the policy's mode in states with features [B, F] and latents z [B, d]."""

    def action_value(self, z: Tensor, action: Tensor) -> Tensor:
        """Return the value [B] of actions [B, A] at latents z [B, d]. Optional hook, for operator "advantage"."""
        raise NotImplementedError(f"learner {type(self).__name__} has no action values")

    def networks(self) -> dict[str, nn.Module]:
        """Return the modules called `actor` and `critic`. Their dormant units are measured, and DrM perturbs them."""
        return {name: module for name, module in self.named_children() if name in ("actor", "critic")}

    @torch.no_grad()
    def dormant_ratios(self, features: Tensor, z: Tensor) -> dict[str, Tensor]:
        """Return the share [] of dormant hidden units of each network, when `value` is computed for these states."""
        with hidden_activations(self.networks()) as activations:
            self.value(features, z)
        return {f"dormant_{name}": dormant_ratio(layers) for name, layers in activations.items() if layers}

    @abstractmethod
    def critic_loss(self, batch: Batch, latents: BatchLatents, step: Step, generator: torch.Generator) -> Loss:
        """Return the critic's loss on `latents.z`. Its gradient reaches the encoder."""

    @abstractmethod
    def update_policy(self, latents: BatchLatents, step: Step, generator: torch.Generator) -> list[Loss]:
        """Update the policy on the current latents. Return the losses of the steps that were made."""

    @abstractmethod
    def update_targets(self, step: Step) -> None:
        """Update the target networks."""


LEARNERS: Registry[type[Learner[Any]]] = Registry("learner", "pamd.learners", with_config=True)


@record
class LearnerPart(Part):
    """A registered learner with its options."""

    registry: ClassVar[Registry[Any]] = LEARNERS
