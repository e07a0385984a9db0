"""The minimum distortion of exact metrics under one distance, for many small spaces at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from pamd.diagnostics.embedding import START
from pamd.diagnostics.matching import Head
from pamd.diagnostics.pairings import Array

__all__ = ["least_distortions"]

SHARPNESS = (2.0, 30.0)
"""The inverse temperature of the smooth maximum that approximates the distortion, at the first and the last step."""
CHECK_EVERY = 25
"""Steps between evaluations of the exact distortion."""


def least_distortions(
    metrics: Sequence[Array],
    head: Head,
    latent_dim: int,
    *,
    within: float,
    seeds: int,
    steps: int,
    learning_rate: float,
) -> Array:
    """Return the smallest distortion [M] that training reaches for each D [S, S].

    Every D has `seeds` separate tables and heads, and the best result is used. The first table is initialized by
    multidimensional scaling, the others are random. All are trained at once and independently. Training ends as soon as
    every distortion is at most `within`. The loss is the squared error of d / D and later a smooth version of the log
    distortion.
    """
    spaces = [D for D in metrics for _ in range(seeds)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(latent_dim)
        heads = [head.build(latent_dim) for _ in spaces]
        table = torch.randn(len(spaces), max(map(len, spaces)), latent_dim) * START / (2 * latent_dim) ** 0.5
    for first, D in zip(range(0, len(spaces), seeds), metrics, strict=True):
        table[first, : len(D)] = _scaled(D, latent_dim)
    (left, right, wanted), weights = _pairs(spaces, symmetric=heads[0].properties.symmetric), stack_module_state(heads)
    groups: list[dict[str, Any]] = [{"params": [table.requires_grad_()]}]
    if weights[0]:
        # At the same learning rate, a network changes more than a table.
        groups.append({"params": list(weights[0].values()), "lr": learning_rate / 10})
    optimizer = torch.optim.Adam(groups, lr=learning_rate, fused=True)
    measure = vmap(lambda parameters, z, z_prime: functional_call(heads[0], parameters, (z, z_prime)))
    rows, best = torch.arange(len(spaces))[:, None], torch.full((len(metrics),), float("inf"))
    for step in range(steps):
        value = measure(weights, table[rows, left], table[rows, right])
        ratio = (value.mean(-1) if value.ndim == 3 else value) / wanted
        if step % CHECK_EVERY == 0 or step == steps - 1:
            best = torch.minimum(best, _distortion(ratio.detach()).view(-1, seeds).amin(1))
            if bool((best <= within).all()):
                break
        optimizer.zero_grad()
        _loss(ratio, step / steps).backward()
        optimizer.step()
    return np.asarray(best.numpy(), dtype=np.float64)


def _scaled(D: Array, latent_dim: int) -> Tensor:
    """Return points [S, d] whose Euclidean distances approximate D [S, S], by classical multidimensional scaling."""
    center = np.eye(len(D)) - 1 / len(D)
    values, vectors = np.linalg.eigh(-center @ D**2 @ center / 2)
    points = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0))
    filled = np.zeros((len(D), max(latent_dim, len(D))))
    filled[:, : len(D)] = points
    return torch.as_tensor(filled[:, :latent_dim], dtype=torch.float32)


def _pairs(spaces: Sequence[Array], *, symmetric: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return left states, right states and distances of all pairs, [I, P] each.

    Smaller spaces repeat their first pair to reach P.
    """
    indices = [np.stack(np.triu_indices(len(D), 1)) for D in spaces]
    if not symmetric:  # Train both orders, so that the distance learns to be symmetric.
        indices = [np.concatenate([pair, pair[::-1]], axis=1) for pair in indices]
    most = max(pair.shape[1] for pair in indices)
    filled = [np.concatenate([pair, pair[:, :1].repeat(most - pair.shape[1], 1)], axis=1) for pair in indices]
    wanted = np.stack([D[pair[0], pair[1]] for D, pair in zip(spaces, filled, strict=True)])
    left, right = (torch.as_tensor(np.stack([pair[side] for pair in filled])) for side in (0, 1))
    return left, right, torch.as_tensor(wanted, dtype=torch.float32)


def _distortion(ratio: Tensor) -> Tensor:
    """Return max / min of the ratios d / D, [I, P] -> [I]; infinity if a ratio is not above 0."""
    least, most = ratio.aminmax(dim=1)
    return torch.where(least > 0, most / least, float("inf"))


def _loss(ratio: Tensor, progress: float) -> Tensor:
    """Return the loss of ratios d / D [I, P]: squared error in the first half, then a smooth max log - min log."""
    if progress < 0.5:
        return (ratio - 1).square().mean(1).sum()
    first, last = SHARPNESS
    sharpness: float = first * (last / first) ** (2 * progress - 1)
    x = sharpness * ratio.clamp(min=1e-6).log()
    return torch.stack([torch.logsumexp(x, 1), torch.logsumexp(-x, 1)]).sum() / sharpness
