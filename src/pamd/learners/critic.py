"""Two Q-functions on one latent, and their loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.initialization import initialize
from pamd.learners.perceptron import perceptron
from pamd.types import Loss

__all__ = ["Critic", "critic_loss"]


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
