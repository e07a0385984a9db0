"""The networks of learners: a policy on an encoder's features, two Q-functions on latents, and the critic's loss."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.initialization import initialize
from pamd.methods import LatentSpace
from pamd.representation.encoder import Normalize, project
from pamd.rng import normal_like
from pamd.types import Batch, Loss

LogProb = Literal["exact", "released"]
"""The log-probability of a squashed action: exact, or with log(relu(1 - a^2) + 1e-6), which cannot fall below -13.8."""

LOG_STD_MIN, LOG_STD_MAX = -10.0, 2.0


def perceptron(inputs: int, hidden: int, outputs: int, layer_norm: bool) -> nn.Sequential:
    """Return a network [B, inputs] -> [B, outputs] with two hidden layers and ReLU.

    With `layer_norm`, each hidden layer is normalized before its ReLU. More units then stay active at large learning
    rates.
    """
    layers: list[nn.Module] = []
    for width in (inputs, hidden):
        layers += [nn.Linear(width, hidden), *([nn.LayerNorm(hidden)] if layer_norm else []), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, outputs))


class PolicyNetwork(nn.Module):
    """A network from features [B, F] to [B, outputs], through the actor's own latents."""

    def __init__(
        self,
        feature_dim: int,
        latent_dim: int,
        space: LatentSpace,
        hidden: int,
        outputs: int,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.head = nn.Linear(feature_dim, latent_dim)
        # No distance measures the actor's latents, so a ball has no benefit.
        self.normalize = Normalize("layernorm" if space == "ball" else space, latent_dim)
        initialize(self.head)
        self.trunk = perceptron(latent_dim, hidden, outputs, layer_norm)
        initialize(self.trunk)

    def forward(self, features: Tensor) -> Tensor:
        """Compute the outputs: [B, F] -> [B, outputs]."""
        output: Tensor = self.trunk(self.normalize(project(self.head, features)))
        return output


class Sampled(NamedTuple):
    """Actions drawn from a policy."""

    action: Tensor
    """[B, A], with gradient"""
    log_prob: Tensor
    """[B]"""
    log_std: Tensor
    """[B, A]"""


def squashed_gaussian(output: Tensor, generator: torch.Generator | None, log_prob: LogProb = "exact") -> Sampled:
    """Draw a reparametrized sample of tanh of a diagonal Gaussian. output: [B, 2A], the mean and raw log std."""
    mean, raw = output.chunk(2, dim=-1)
    log_std = LOG_STD_MIN + (LOG_STD_MAX - LOG_STD_MIN) / 2 * (torch.tanh(raw) + 1)
    noise = normal_like(mean, generator)
    unbounded = mean + log_std.exp() * noise
    action = torch.tanh(unbounded)
    gaussian = -(noise.square() / 2 + log_std + math.log(2 * math.pi) / 2).sum(-1)
    if log_prob == "released":
        slope = torch.log(F.relu(1 - action.square()) + 1e-6)
    else:
        # log(1 - tanh(u)^2), in a form without cancellation for large u.
        slope = 2 * (math.log(2) - unbounded - F.softplus(-2 * unbounded))
    return Sampled(action, gaussian - slope.sum(-1), log_std)


class Critic(nn.Module):
    """Two Q-functions: z [B, d], action [B, A] -> Q1, Q2 [B] each."""

    def __init__(self, latent_dim: int, action_dim: int, hidden: int, layer_norm: bool = False) -> None:
        super().__init__()
        self.q1, self.q2 = (perceptron(latent_dim + action_dim, hidden, 1, layer_norm) for _ in range(2))
        initialize(self)

    def forward(self, z: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Compute both values: z [B, d], action [B, A] -> [B], [B]."""
        joined = torch.cat([z, action], dim=-1)
        return self.q1(joined).squeeze(-1), self.q2(joined).squeeze(-1)

    def min_q(self, z: Tensor, action: Tensor) -> Tensor:
        """Return the smaller of the two values: z [B, d], action [B, A] -> [B]."""
        return torch.minimum(*self(z, action))


def critic_loss(critic: Critic, z: Tensor, action: Tensor, target: Tensor) -> Loss:
    """Return the sum of the mean squared errors of both Q-functions. z: [B, d], action: [B, A], target: [B]."""
    q1, q2 = critic(z, action)
    loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
    return Loss(loss, {"critic_loss": loss.detach(), "q_mean": q1.detach().mean()})


def bootstrapped(batch: Batch, value: Tensor, gamma: float) -> Tensor:
    """Return the critic's target [B]: rewards plus the discounted value [B] of the state at which the return ends."""
    if batch.n_step is not None:
        return batch.n_step.reward + batch.n_step.discount * value
    return batch.reward + gamma * batch.not_done * value
