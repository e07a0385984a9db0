"""SAC's temperature: as high as keeps the policy's entropy at its target."""

from __future__ import annotations

from torch import Tensor

from pamd.types import Loss

__all__ = ["temperature_loss"]


def temperature_loss(log_temperature: Tensor, log_prob: Tensor, target_entropy: float) -> Loss:
    """alpha * (entropy - target), in which only alpha is learned. log_prob: [B]."""
    temperature = log_temperature.exp()
    loss = temperature * (-log_prob - target_entropy).mean()
    return Loss(loss, {"temperature": temperature.detach()})
