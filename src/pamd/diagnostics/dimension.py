"""Find the dimension that a distance needs to embed an exact metric with a given distortion.

The encoder is a table that is trained together with the distance on all pairs. The result is compared with the
effective dimension and the doubling dimension of the metric.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from pamd import exact as truth
from pamd.diagnostics.base import Ledger, Progress, diagnostic, quiet, rank_correlation
from pamd.diagnostics.exact import START, Space, quotient, space_of
from pamd.diagnostics.matching import Head, match
from pamd.diagnostics.mdps import varied_mdps
from pamd.distances import DISTANCES
from pamd.errors import ConfigError
from pamd.exact import FiniteMDP
from pamd.exact.mdp import Array

_DIMENSIONS = (1, 2, 3, 4, 6, 8)
_SHARPNESS = (2.0, 30.0)
"""The inverse temperature of the smooth maximum that approximates the distortion, at the first and the last step."""
_CHECK_EVERY = 25
"""Steps between evaluations of the exact distortion."""


@dataclass(frozen=True)
class Need:
    """The dimension that a distance needs for a metric."""

    mdp: str
    metric: str
    distance: str
    dimension: int | None
    """The smallest tested dimension with a sufficiently small distortion; None if there is none."""
    distortion: float
    """The distortion at that dimension, or the smallest distortion found."""


@dataclass(frozen=True)
class Dimension:
    kind: ClassVar[str] = "dimension"
    settings: dict[str, Any]
    spaces: tuple[Space, ...]
    cells: tuple[Need, ...]
    rank_correlation: dict[str, float]
    """By distance, the rank correlation of the needed dimension and the effective dimension. None counts as largest."""


@diagnostic("dimension")
def dimension(
    mdps: Mapping[str, FiniteMDP] | None = None,
    *,
    metrics: Sequence[str] = ("policy-bisimulation",),
    distances: Sequence[str] | None = None,
    dimensions: Sequence[int] = _DIMENSIONS,
    within: float = 2.0,
    seeds: int = 2,
    steps: int = 150,
    learning_rate: float = 5e-2,
    out: Path | None = None,
    progress: Progress = quiet,
    interrupted: bool = False,
) -> Dimension:
    """Find the smallest dimension at which each distance embeds exact metrics with a given distortion, over 22 MDPs.

    It is compared with the dimension of the metrics themselves. Finished fits are kept. After an interruption, rerun
    the same command to continue.

    Args:
        within: the largest distortion allowed; 1 is a perfect fit
        metrics: bisimulation, policy-bisimulation, mico, value, advantage, n-step, state-action or kernel
        distances: distances to test; see `pamd list distances` (default: all)
        dimensions: latent dimensions
        seeds: fits with different seeds, of which the best one counts
        steps: gradient steps per fit

    With `out`, finished fits are stored there and not recomputed. With `interrupted`, only stored fits are returned.
    """
    if seeds < 1 or steps < 1 or not 1 <= within < float("inf"):
        raise ConfigError(
            f"dimension: seeds, steps and within must be finite and at least 1, got {seeds}, {steps}, {within}"
        )
    if not metrics or not dimensions or min(dimensions) < 1:
        raise ConfigError(f"dimension: metrics and dimensions must name at least one, got {metrics}, {dimensions}")
    names = tuple(DISTANCES.names() if distances is None else distances)
    for name in names:
        DISTANCES.get(name)
    mdps = varied_mdps() if mdps is None else mdps
    settings = {
        "within": within,
        "dimensions": sorted(dimensions),
        "seeds": seeds,
        "steps": steps,
        "learning_rate": learning_rate,
    }
    asked = {**settings, "mdps": list(mdps), "metrics": list(metrics)}
    ledger = Ledger(None if out is None else out / "cells.jsonl", asked)
    tables, spaces = {}, []
    for count, key in enumerate(itertools.product(mdps, metrics)):
        progress("solving MDPs", count, len(mdps) * len(metrics))
        tables[key] = quotient(truth.metric(key[1], mdps[key[0]], tolerance=1e-4))
        spaces.append(space_of(*key, tables[key]))
    cells = []
    for count, name in enumerate(names):
        progress("embedding metrics", count, len(names))
        if name not in ledger and not interrupted:
            needs = _needs(tables, name, sorted(dimensions), within, seeds, steps, learning_rate)
            ledger.add(name, {"cells": [dataclasses.asdict(need) for need in needs]})
        cells += [Need(**cell) for cell in ledger[name]["cells"]] if name in ledger else []
    return Dimension(settings, tuple(spaces), tuple(cells), _correlations(spaces, cells))


def _needs(
    tables: Mapping[tuple[str, str], Array],
    name: str,
    dimensions: Sequence[int],
    within: float,
    seeds: int,
    steps: int,
    learning_rate: float,
) -> list[Need]:
    """Find the dimension that the distance `name` needs for each metric, in increasing order of dimension."""
    needs = {key: Need(*key, name, None, float("inf")) for key in tables}
    for d in dimensions:
        left = [key for key, need in needs.items() if need.dimension is None]
        if not left:
            break
        try:
            head = match(name, d)
        except ConfigError:
            continue  # The distance is not defined for so few dimensions.
        distortions = _least_distortions(
            [tables[key] for key in left], head, d,
            within=within, seeds=seeds, steps=steps, learning_rate=learning_rate,
        )  # fmt: skip
        for key, distortion in zip(left, distortions.tolist(), strict=True):
            if distortion <= within:
                needs[key] = Need(*key, name, d, distortion)
            elif distortion < needs[key].distortion:
                needs[key] = Need(*key, name, None, distortion)
    return list(needs.values())


def _correlations(spaces: Sequence[Space], cells: Sequence[Need]) -> dict[str, float]:
    size = {(space.mdp, space.metric): space.effective_dimension for space in spaces}
    correlations = {}
    for name in dict.fromkeys(cell.distance for cell in cells):
        selected = [cell for cell in cells if cell.distance == name]
        needed = [float("inf") if cell.dimension is None else float(cell.dimension) for cell in selected]
        sizes = np.array([size[cell.mdp, cell.metric] for cell in selected])
        correlations[name] = rank_correlation(sizes, np.array(needed))
    return correlations


def _least_distortions(
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
    (left, right, target), weights = _pairs(spaces, symmetric=heads[0].properties.symmetric), stack_module_state(heads)
    groups: list[dict[str, Any]] = [{"params": [table.requires_grad_()]}]
    if weights[0]:
        # At the same learning rate, a network changes more than a table.
        groups.append({"params": list(weights[0].values()), "lr": learning_rate / 10})
    optimizer = torch.optim.Adam(groups, lr=learning_rate, fused=True)
    measure = vmap(lambda parameters, z, z_prime: functional_call(heads[0], parameters, (z, z_prime)))
    rows, best = torch.arange(len(spaces))[:, None], torch.full((len(metrics),), float("inf"))
    for step in range(steps):
        value = measure(weights, table[rows, left], table[rows, right])
        ratio = (value.mean(-1) if value.ndim == 3 else value) / target
        if step % _CHECK_EVERY == 0 or step == steps - 1:
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
    target = np.stack([D[pair[0], pair[1]] for D, pair in zip(spaces, filled, strict=True)])
    left, right = (torch.as_tensor(np.stack([pair[side] for pair in filled])) for side in (0, 1))
    return left, right, torch.as_tensor(target, dtype=torch.float32)


def _distortion(ratio: Tensor) -> Tensor:
    """Return max / min of the ratios d / D, [I, P] -> [I]; infinity if a ratio is not above 0."""
    least, most = ratio.aminmax(dim=1)
    return torch.where(least > 0, most / least, float("inf"))


def _loss(ratio: Tensor, progress: float) -> Tensor:
    """Return the loss of ratios d / D [I, P]: squared error in the first half, then a smooth max log - min log."""
    if progress < 0.5:
        return (ratio - 1).square().mean(1).sum()
    first, last = _SHARPNESS
    sharpness: float = first * (last / first) ** (2 * progress - 1)
    x = sharpness * ratio.clamp(min=1e-6).log()
    return torch.stack([torch.logsumexp(x, 1), torch.logsumexp(-x, 1)]).sum() / sharpness
