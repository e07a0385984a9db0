"""The network that looks at a pair, and ReHU: shared by every pair-conditioned distance."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pamd.errors import ConfigError

__all__ = ["both_orders", "check_hidden", "pair_network", "rehu", "rehu_slope"]


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
    """net([z; z']) and net([z'; z]) in one pass. z, z_prime: [P, d] -> [2, P, outputs].

    In float32 at least: the forms built from it square and sum, which half precision does not carry.
    """
    forward = torch.cat([z, z_prime], dim=-1)
    backward = torch.cat([z_prime, z], dim=-1)
    output: Tensor = net(torch.cat([forward, backward]))
    return output.to(torch.promote_types(output.dtype, torch.float32)).view(2, z.shape[0], output.shape[-1])


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
