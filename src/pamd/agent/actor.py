"""The actor's side of SAC."""

from __future__ import annotations

import torch
from torch import Tensor

from pamd.nets import Actor, Critic
from pamd.types import Loss

__all__ = ["actor_loss"]


def actor_loss(
    actor: Actor, critic: Critic, features: Tensor, z: Tensor, temperature: Tensor, generator: torch.Generator
) -> tuple[Loss, Tensor]:
    """alpha log pi(a|s) - min Q(s, a), and log pi [B] for the temperature.

    features [B, F] and z [B, d] come without gradient: the actor does not shape the convolutions.
    """
    action, log_prob, log_std = actor.sample(features, generator)
    q1, q2 = critic(z, action)
    loss = (temperature.detach() * log_prob - torch.minimum(q1, q2)).mean()
    metrics = {"actor_loss": loss.detach(), "entropy": -log_prob.detach().mean(), "log_std": log_std.detach().mean()}
    return Loss(loss, metrics), log_prob.detach()
