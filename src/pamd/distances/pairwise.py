"""The network for pairs of latents, and ReHU. The pair-conditioned distances share them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def pair_network(latent_dim: int, hidden: int, outputs: int, frozen: bool = False) -> nn.Sequential:
    """Build the network 2d -> h -> h -> outputs with ReLU and PyTorch's default init. Layers 0, 2 and 4 are linear.

    A frozen network keeps its random weights: they require no gradient, so no optimizer receives them.
    """
    net = nn.Sequential(
        nn.Linear(2 * latent_dim, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, outputs),
    )
    return net.requires_grad_(not frozen)


def pair_inputs(z: Tensor, z_prime: Tensor) -> Tensor:
    """Return a pair network's inputs [z; z'] and [z'; z]. z, z_prime: [P, d] -> [2, P, 2d]."""
    left, right = torch.cat([z, z_prime]), torch.cat([z_prime, z])
    return torch.cat([left, right], dim=-1).view(2, *z.shape[:-1], 2 * z.shape[-1])


def pair_outputs(net: nn.Module, z: Tensor, z_prime: Tensor) -> Tensor:
    """Compute net([z; z']) and net([z'; z]) in one pass. z, z_prime: [P, d] -> [2, P, outputs], at least float32."""
    outputs: Tensor = net(pair_inputs(z, z_prime))
    return at_least_float32(outputs)


def at_least_float32(x: Tensor) -> Tensor:
    """Convert x to at least float32, because half precision cannot represent the sums of squares in quadratic forms."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def rehu(x: Tensor) -> Tensor:
    """Return the rectified Huber function with eta = 1: 0 below 0, x^2/2 up to 1, and x - 1/2 above."""
    inner = x.clamp(0, 1)  # 0, x or 1 in the three cases, so one product covers them all
    return inner * (x - inner / 2)
