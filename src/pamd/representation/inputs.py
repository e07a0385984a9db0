"""Checks of a representation's input transitions, and the encoding of actions for the latent model."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.errors import ConfigError, DtypeError, ShapeError

__all__ = ["check_transitions", "encode_action"]


def check_transitions(
    encoder: nn.Module, obs: Tensor, action: Tensor, reward: Tensor, next_obs: Tensor, z: Tensor | None
) -> None:
    """Raise ShapeError unless these are B transitions, and ConfigError if z [B, d] cannot train the encoder."""
    size = len(obs)
    if reward.ndim != 1 or not reward.is_floating_point():
        raise ShapeError(f"reward must be floating-point [B] or [B, 1], got {reward.dtype} {list(reward.shape)}")
    if next_obs.shape != obs.shape:
        raise ShapeError(f"next_obs must have the shape of obs, {list(obs.shape)}, got {list(next_obs.shape)}")
    for name, tensor in (("action", action), ("reward", reward), ("z", z)):
        if tensor is not None and len(tensor) != size:
            raise ShapeError(f"{name} must have one row per observation, {size}, got {list(tensor.shape)}")
    learned = torch.is_grad_enabled() and any(p.requires_grad for p in encoder.parameters())
    if z is not None and learned and not z.requires_grad:
        raise ConfigError(
            "z carries no gradient, so the losses would not train the encoder; call encode with gradients on"
        )


def encode_action(action: Tensor, action_dim: int) -> Tensor:
    """Return continuous actions [B, A] unchanged, and discrete actions [B] one-hot encoded as [B, A]."""
    if action.is_floating_point():
        if action.ndim != 2 or action.shape[1] != action_dim:
            raise ShapeError(f"action must be [B, {action_dim}], got {list(action.shape)}")
        return action
    action = action.squeeze(-1) if action.ndim == 2 and action.shape[1] == 1 else action
    if action.ndim != 1 or action.dtype != torch.int64:
        raise DtypeError(
            f"discrete actions must be int64 [B] or [B, 1], got {action.dtype} {list(action.shape)};"
            f" continuous ones must be floating-point [B, {action_dim}]"
        )
    try:
        return F.one_hot(action, action_dim).to(torch.get_default_dtype())
    except RuntimeError:
        raise ShapeError(f"discrete actions must lie in [0, {action_dim}), got {action.tolist()[:10]}") from None
