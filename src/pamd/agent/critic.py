"""The critic's side of SAC."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from pamd.nets import Actor, Critic
from pamd.types import Batch, Loss

__all__ = ["bootstrap", "critic_loss"]


@torch.no_grad()
def bootstrap(
    batch: Batch,
    actor: Actor,
    target_critic: Critic,
    next_features: Tensor,
    target_z_next: Tensor,
    temperature: Tensor,
    gamma: float,
    generator: torch.Generator,
) -> Tensor:
    """r + gamma * (min Q'(s', a') - alpha log pi(a'|s')), without gradient. features: [B, F], z: [B, d] -> [B]."""
    action, log_prob, _ = actor.sample(next_features, generator)
    q1, q2 = target_critic(target_z_next, action)
    value = torch.minimum(q1, q2) - temperature * log_prob
    return batch.reward + gamma * batch.not_done * value


def critic_loss(critic: Critic, z: Tensor, action: Tensor, target: Tensor) -> Loss:
    """Squared error of both Q-functions. z: [B, d], action: [B, A], target: [B]."""
    q1, q2 = critic(z, action)
    loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
    return Loss(loss, {"critic_loss": loss.detach(), "q_mean": q1.detach().mean()})
