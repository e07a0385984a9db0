"""Soft actor-critic on latents: clipped double Q, a squashed Gaussian policy, a learned temperature."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from pamd.errors import ConfigError
from pamd.latents import BatchLatents
from pamd.learners.base import LEARNERS, Learner, LearnerConfig, Step
from pamd.learners.dormancy import DrmOptions, build_drm
from pamd.learners.networks import Critic, LogProb, PolicyNetwork, Sampled, bootstrapped, critic_loss, squashed_gaussian
from pamd.optimization import adam, ema_update, optimizer_step, target_copy
from pamd.representation import LatentEncoder
from pamd.schema import Count, Discount, Fraction, Index, Positive, record
from pamd.types import Batch, Loss


@record
class SacConfig(LearnerConfig):
    """The options of SAC. The defaults are those of the paper."""

    hidden: Count = 256
    """Units of each hidden layer of the actor and the critic."""
    critic_tau: Fraction = 0.005
    """Rate at which the target critic moves toward the critic."""
    actor_every: Count = 2
    """Updates between two steps of the actor and the temperature."""
    targets_every: Count = 2
    """Updates between two steps of the target critic."""
    schedule_offset: Index = 0
    """Added to the update count before the comparison with `actor_every` and `targets_every`."""
    log_prob: LogProb = "exact"
    """How the log-probability of a squashed action is computed."""
    temperature: Positive = 0.1
    """Initial temperature."""
    temperature_learning_rate: Positive = 1e-3
    """Adam's learning rate for the temperature."""
    temperature_beta1: Discount = 0.9
    """Adam's beta1 for the temperature."""
    drm: DrmOptions | None = None
    """What to do about dormant units (as in learner `drm`, without `exploration`). Null: nothing."""

    def __post_init__(self) -> None:
        if self.drm is not None and self.drm.exploration:
            raise ConfigError(
                "learner 'sac' has no scheduled noise: its policy is random; set learner.drm.exploration=false"
            )

    def due(self, every: int, updates: int) -> bool:
        """Return whether a step that runs every `every` updates runs at update number `updates`, counted from 1."""
        return self.in_burst(updates) or (updates + self.schedule_offset) % every == 0


@LEARNERS.register("sac")
class Sac(Learner[SacConfig]):
    """The target critic reads the encoder's "ema" copy. The actor and the critic share the encoder's trunk."""

    Config = SacConfig
    target_encoder = True

    def __init__(self, config: SacConfig, encoder: LatentEncoder, action_dim: int) -> None:
        super().__init__(config, encoder, action_dim)
        d, space = encoder.latent_dim, encoder.space.space
        self.critic = Critic(d, action_dim, config.hidden, config.layer_norm)
        self.actor = PolicyNetwork(encoder.feature_dim, d, space, config.hidden, 2 * action_dim, config.layer_norm)
        self.log_temperature = nn.Parameter(torch.tensor(config.temperature).log())
        self.target_critic = target_copy(self.critic)
        self.drm = build_drm(config.drm, d, config.hidden, config.layer_norm)

    def make_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        config = self.config
        betas = (config.temperature_beta1, 0.999)
        return {
            "actor": adam(self.actor.parameters(), config.learning_rate),
            "temperature": adam([self.log_temperature], config.temperature_learning_rate, betas=betas),
        }

    def critic_parameters(self) -> Iterable[nn.Parameter]:
        return [*self.critic.parameters(), *(() if self.drm is None else self.drm.parameters())]

    def act(self, features: Tensor, *, explore: bool, step: Step, generator: torch.Generator) -> Tensor:
        return self._sample(features, generator).action if explore else self._mode(features)

    def value(self, features: Tensor, z: Tensor) -> Tensor:
        return self.critic.min_q(z, self._mode(features))

    def action_value(self, z: Tensor, action: Tensor) -> Tensor:
        return self.critic.min_q(z, action)

    def critic_loss(self, batch: Batch, latents: BatchLatents, step: Step, generator: torch.Generator) -> Loss:
        if self.drm is not None:
            self.drm.measure(self.dormant_ratios, latents, *step)
        with torch.no_grad():
            action, log_prob, _ = self._sample(latents.features(latents.return_of), generator)
            z_next = latents.latent(latents.return_of, "ema")
            value = self.target_critic.min_q(z_next, action) - self.log_temperature.exp() * log_prob
            if self.drm is not None:
                value = self.drm.mixed(value, z_next)
            target = bootstrapped(batch, value, self.config.gamma)
        loss = critic_loss(self.critic, latents.z, batch.action, target)
        if self.drm is None:
            return loss
        with torch.no_grad():
            z = latents.latent("obs", "ema")
            q = self.target_critic.min_q(z, batch.action)
        return self.drm.with_value_loss(loss, z, q)

    def update_policy(self, latents: BatchLatents, step: Step, generator: torch.Generator) -> list[Loss]:
        if not self.config.due(self.config.actor_every, step.updates):
            return []
        features = latents.features()
        with torch.no_grad():  # the policy's gradient stops at the features
            z = latents.encoder.head(features)
        actor, log_prob = self.actor_loss(features, z, generator)
        temperature = self.temperature_loss(log_prob)
        # Neither loss has a gradient for the other's parameters, so one backward pass serves both.
        optimizer_step([actor, temperature], [self.optimizers["actor"], self.optimizers["temperature"]])
        return [actor, temperature]

    def actor_loss(self, features: Tensor, z: Tensor, generator: torch.Generator) -> tuple[Loss, Tensor]:
        """Return alpha log pi(a|s) - min Q(s, a), and log pi [B]. features [B, F] and z [B, d] carry no gradient."""
        action, log_prob, log_std = self._sample(features, generator)
        loss = (self.log_temperature.exp().detach() * log_prob - self.critic.min_q(z, action)).mean()
        entropy = -log_prob.detach().mean()
        metrics = {"actor_loss": loss.detach(), "entropy": entropy, "log_std": log_std.detach().mean()}
        return Loss(loss, metrics), log_prob.detach()

    def temperature_loss(self, log_prob: Tensor) -> Loss:
        """Return alpha * (entropy - target) for log_prob [B]. Only alpha is learned. The target entropy is -A."""
        temperature = self.log_temperature.exp()
        loss = temperature * (-log_prob + self.action_dim).mean()
        return Loss(loss, {"temperature": temperature.detach()})

    def _sample(self, features: Tensor, generator: torch.Generator) -> Sampled:
        """Sample actions of the policy in states with features [B, F]."""
        return squashed_gaussian(self.actor(features), generator, self.config.log_prob)

    def _mode(self, features: Tensor) -> Tensor:
        """Return the policy's mode: [B, F] -> [B, A]."""
        return torch.tanh(self.actor(features).chunk(2, dim=-1)[0])

    def update_targets(self, step: Step) -> None:
        if self.config.due(self.config.targets_every, step.updates):
            ema_update(self.target_critic, self.critic, self.config.critic_tau)
