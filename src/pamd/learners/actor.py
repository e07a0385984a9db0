"""Policies on an encoder's features: their own head, then a multilayer perceptron."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.initialization import initialize
from pamd.learners.perceptron import perceptron
from pamd.methods import LatentSpace
from pamd.representation.encoder import Normalize
from pamd.rng import normal_like

__all__ = ["LogProb", "PolicyNetwork", "Sampled", "squashed_gaussian"]

LogProb = Literal["exact", "released"]
"""The log-probability of a squashed action: exact, or with log(relu(1 - a^2) + 1e-6), which cannot fall below -13.8."""

LOG_STD_MIN, LOG_STD_MAX = -10.0, 2.0


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
        output: Tensor = self.trunk(self.normalize(self.head(features)))
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
