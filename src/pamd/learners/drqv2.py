"""DrQ-v2 on latents: deterministic policy gradient, clipped double Q, n-step returns, random shift, scheduled noise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

import torch
from torch import Tensor, nn

from pamd.augmentations import AugmentationPart
from pamd.latents import BatchLatents
from pamd.learners.base import LEARNERS, Learner, LearnerConfig, Step
from pamd.learners.dormancy import DrmOptions, build_drm
from pamd.learners.networks import Critic, PolicyNetwork, bootstrapped, critic_loss
from pamd.methods import LatentSpace
from pamd.optimization import adam, ema_update, optimizer_step, target_copy
from pamd.representation import LatentEncoder
from pamd.representation.encoder import project
from pamd.rng import normal_like
from pamd.schema import Count, Fraction, NonNegative, Positive, record
from pamd.types import Batch, Loss


@record
class DrqV2Config(LearnerConfig):
    """The options of DrQ-v2. The defaults are those of its publication."""

    learning_rate: Positive = 1e-4
    """Adam's learning rate for every network."""
    batch: Count = 256
    """Transitions per update."""
    random_decisions: Count = 2000
    """Decisions taken at random before the first update."""
    updates_per_decision: Positive = 0.5
    """Updates per decision."""
    n_step: Count = 3
    """Number of steps of the critic's return."""
    augmentation: AugmentationPart = field(default_factory=lambda: AugmentationPart("random-shift"))
    """The augmentation of observations before an update."""
    hidden: Count = 1024
    """Units of each hidden layer of the actor and the critic."""
    critic_tau: Fraction = 0.01
    """Rate at which the target critic moves toward the critic."""
    noise: tuple[NonNegative, NonNegative] = (1.0, 0.1)
    """Initial and final standard deviation of the exploration noise."""
    noise_decisions: Count = 100_000
    """Number of decisions over which the noise decreases linearly."""
    noise_clip: Positive = 0.3
    """Largest absolute noise on actions in the losses."""
    drm: DrmOptions | None = None
    """What to do about dormant units (learner `drm`). Null: nothing."""


class DeterministicLearner(Learner[DrqV2Config]):
    """The target critic reads the online trunk's features through a target copy of the head. A subclass is final."""

    latent_space: LatentSpace = "tanh"  # type: ignore[misc]

    def __init__(self, config: DrqV2Config, encoder: LatentEncoder, action_dim: int) -> None:
        super().__init__(config, encoder, action_dim)
        d, space = encoder.latent_dim, encoder.space.space
        self.critic = Critic(d, action_dim, config.hidden, config.layer_norm)
        self.actor = PolicyNetwork(encoder.feature_dim, d, space, config.hidden, action_dim, config.layer_norm)
        self.target_critic = target_copy(self.critic)
        # A tuple, so that the encoder is not a submodule of this module: the representation owns it.
        self._head_of = (encoder,)
        self.target_head = target_copy(encoder.head_modules())
        self.drm = build_drm(config.drm, d, config.hidden, config.layer_norm)

    def make_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"actor": adam(self.actor.parameters(), self.config.learning_rate)}

    def critic_parameters(self) -> Iterable[nn.Parameter]:
        return [*self.critic.parameters(), *(() if self.drm is None else self.drm.parameters())]

    def noise_at(self, step: Step) -> float | Tensor:
        """Return the standard deviation of the noise on actions: a number, or [] with DrM."""
        first, last = self.config.noise
        if self.drm is not None and self.drm.options.exploration:
            decline = self.config.noise_decisions
            return self.drm.noise(step.decisions, lambda since: first + (last - first) * (since / decline).clamp(max=1))
        return first + (last - first) * min(1.0, step.decisions / self.config.noise_decisions)

    def act(self, features: Tensor, *, explore: bool, step: Step, generator: torch.Generator) -> Tensor:
        action = torch.tanh(self.actor(features))
        if not explore:
            return action
        return (action + self.noise_at(step) * normal_like(action, generator)).clamp(-1, 1)

    def value(self, features: Tensor, z: Tensor) -> Tensor:
        return self.critic.min_q(z, torch.tanh(self.actor(features)))

    def action_value(self, z: Tensor, action: Tensor) -> Tensor:
        return self.critic.min_q(z, action)

    def critic_loss(self, batch: Batch, latents: BatchLatents, step: Step, generator: torch.Generator) -> Loss:
        if self.drm is not None:
            self.drm.measure(self.dormant_ratios, latents, *step)
        with torch.no_grad():
            features = latents.features(latents.return_of)
            action = self._smoothed(features, step, generator)
            z_next = self._target_latents(features)
            value = self.target_critic.min_q(z_next, action)
            if self.drm is not None:
                value = self.drm.mixed(value, z_next)
            target = bootstrapped(batch, value, self.config.gamma)
        loss = critic_loss(self.critic, latents.z, batch.action, target)
        if self.drm is None:
            return loss
        with torch.no_grad():
            z = self._target_latents(latents.features())
            q = self.target_critic.min_q(z, batch.action)
        return self.drm.with_value_loss(loss, z, q)

    def update_policy(self, latents: BatchLatents, step: Step, generator: torch.Generator) -> list[Loss]:
        features = latents.features()
        with torch.no_grad():  # the policy's gradient stops at the features
            z = latents.encoder.head(features)
        action = self._smoothed(features, step, generator)
        loss = -self.critic.min_q(z, action).mean()
        actor = Loss(loss, {"actor_loss": loss.detach(), "noise": loss.new_zeros(()) + self.noise_at(step)})
        optimizer_step([actor], [self.optimizers["actor"]])
        return [actor]

    def update_targets(self, step: Step) -> None:
        (encoder,) = self._head_of
        ema_update(self.target_critic, self.critic, self.config.critic_tau)
        ema_update(self.target_head, encoder.head_modules(), self.config.critic_tau)

    def _target_latents(self, features: Tensor) -> Tensor:
        """Return the latents z [B, d] that the target critic reads, of features [B, F]."""
        head, space = self.target_head
        z: Tensor = space(project(head, features))
        return z

    def _smoothed(self, features: Tensor, step: Step, generator: torch.Generator) -> Tensor:
        """Return the policy's action [B, A] with clipped noise. The gradient passes through the clamp to [-1, 1]."""
        mean = torch.tanh(self.actor(features))
        clip = self.config.noise_clip
        action = mean + (self.noise_at(step) * normal_like(mean, generator)).clamp(-clip, clip)
        return action + (action.clamp(-1, 1) - action).detach()


@LEARNERS.register("drqv2")
class DrqV2(DeterministicLearner):
    """Deterministic policy gradient with clipped double Q, n-step returns, random shift and scheduled noise."""

    Config = DrqV2Config
