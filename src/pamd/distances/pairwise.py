"""The network that reads a pair of latents, and ReHU. Every pair-conditioned distance shares them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pamd.errors import ConfigError

__all__ = ["at_least_float32", "both_orders", "check_hidden", "in_both_orders", "pair_network", "rehu", "rehu_slope"]


def pair_network(latent_dim: int, hidden: int, outputs: int) -> nn.Sequential:
    """2d -> h -> h -> outputs, ReLU, PyTorch's default init. Its linear layers are 0, 2 and 4."""
    return nn.Sequential(
        nn.Linear(2 * latent_dim, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, outputs),
    )


def both_orders(net: nn.Module, z: Tensor, z_prime: Tensor) -> Tensor:
    """net([z; z']) and net([z'; z]) in one pass. z, z_prime: [P, d] -> [2, P, outputs], float32 at least."""
    output: Tensor = net(in_both_orders(z, z_prime))
    return at_least_float32(output).transpose(0, 1)


def in_both_orders(z: Tensor, z_prime: Tensor) -> Tensor:
    """[z; z'] and [z'; z]. z, z_prime: [P, d] -> [P, 2, 2d]."""
    return torch.cat([z, z_prime, z_prime, z], dim=-1).view(z.shape[0], 2, 2 * z.shape[1])


def at_least_float32(x: Tensor) -> Tensor:
    """x, out of half precision: quadratic forms square and sum, which half precision cannot hold."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def rehu(x: Tensor) -> Tensor:
    """Rectified Huber with eta = 1: 0 below 0, x^2/2 up to 1, x - 1/2 beyond."""
    inner = x.clamp(0, 1)
    return inner * (x - inner / 2)


def rehu_slope(x: Tensor) -> Tensor:
    """The derivative of `rehu`."""
    return x.clamp(0, 1)


def check_hidden(what: str, hidden: int) -> None:
    """Raise ConfigError unless `hidden` is a width."""
    if hidden < 1:
        raise ConfigError(f"{what}: hidden must be at least 1, got {hidden}")
