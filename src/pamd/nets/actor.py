"""The policy: a tanh-squashed diagonal Gaussian over actions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.nets.encoder import LatentHead, LatentSpace
from pamd.nets.init import initialise

__all__ = ["Actor"]

LOG_STD_MIN, LOG_STD_MAX = -10.0, 2.0


class Actor(nn.Module):
    """Features [B, F] -> a distribution over actions [B, A], by a latent head of its own on shared convolutions."""

    def __init__(self, features: int, latent_dim: int, space: LatentSpace, action_dim: int, hidden: int) -> None:
        super().__init__()
        self.head = LatentHead(features, latent_dim, space)
        self.trunk = nn.Sequential(
            nn.Linear(latent_dim, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 2 * action_dim),
        )
        initialise(self.trunk)

    def mean(self, features: Tensor) -> Tensor:
        """The policy's mode: [B, F] -> [B, A] in [-1, 1]."""
        mean, _ = self.trunk(self.head(features)).chunk(2, dim=-1)
        return torch.tanh(mean)

    def sample(self, features: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """A reparametrised action [B, A], its log-probability [B] and log std [B, A]."""
        mean, raw = self.trunk(self.head(features)).chunk(2, dim=-1)
        log_std = LOG_STD_MIN + (LOG_STD_MAX - LOG_STD_MIN) / 2 * (torch.tanh(raw) + 1)
        noise = torch.randn(mean.shape, generator=generator, device=generator.device).to(mean.device)
        unbounded = mean + log_std.exp() * noise
        log_prob = -(noise.square() / 2 + log_std + math.log(2 * math.pi) / 2).sum(-1)
        # log(1 - tanh(u)^2), in the form that does not cancel for large u.
        log_prob = log_prob - (2 * (math.log(2) - unbounded - F.softplus(-2 * unbounded))).sum(-1)
        return torch.tanh(unbounded), log_prob, log_std
