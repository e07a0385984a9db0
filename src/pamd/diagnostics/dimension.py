"""How many dimensions does a distance need to hold an exact metric within a given distortion?

The encoder is a table, trained with the distance on all pairs. The answer is set against the size of the metric itself:
its effective and its doubling dimension.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from pamd import exact as truth
from pamd.config import check_whole
from pamd.diagnostics.embedding import START
from pamd.diagnostics.ledger import Ledger
from pamd.diagnostics.matching import Head, match
from pamd.diagnostics.pairings import Array, rank_correlation
from pamd.diagnostics.source import Progress, quiet
from pamd.diagnostics.space import Space, quotient, space_of
from pamd.distances import DISTANCES
from pamd.errors import ConfigError
from pamd.exact import FiniteMDP

__all__ = ["Dimension", "Need", "dimension", "least_distortions", "varied_mdps"]

DIMENSIONS = (1, 2, 3, 4, 6, 8)
SHARPNESS = (2.0, 30.0)
"""Of the smooth maximum that stands for the distortion, at the first step and at the last."""
CHECK_EVERY = 25
"""Steps between two looks at the distortion itself."""
_PLANS = {
    "corridor": "............G",
    "short corridor": ".....G",
    "open": "....\n....\n...G",
    "ring": "....\n.##.\n.##.\n...G",
    "rooms": "..#..\n.....\n..#.G",
    "comb": ".....\n.#.#.\n.#.#G",
}


@dataclass(frozen=True)
class Need:
    """What a distance needs for a metric."""

    mdp: str
    metric: str
    distance: str
    dimension: int | None
    """The smallest dimension tried whose distortion is small enough; None where none is."""
    distortion: float
    """The distortion there, or the smallest that was found."""


@dataclass(frozen=True)
class Dimension:
    settings: dict[str, Any]
    spaces: tuple[Space, ...]
    cells: tuple[Need, ...]
    rank_correlation: dict[str, float]
    """By distance: of the dimension needed with the effective dimension; "none" counts as more than any."""


def varied_mdps() -> dict[str, FiniteMDP]:
    """Twenty-two MDPs of many dimensions: garnets of several branchings, and grids with and without slips."""
    rng = np.random.default_rng(0)
    garnets = {
        f"garnet {states}-{branching}": truth.garnet(states, 2, branching, rng=rng)
        for states in (8, 11)
        for branching in (1, 2, 3, 5, 7)
    }
    grids = {
        f"{name}{', slips' if slip else ''}": truth.grid_world(plan, slip=slip)
        for name, plan in _PLANS.items()
        for slip in (0.0, 0.2)
    }
    return {**garnets, **grids}


def dimension(
    mdps: Mapping[str, FiniteMDP] | None = None,
    *,
    metrics: Sequence[str] = ("policy-bisimulation",),
    distances: Sequence[str] | None = None,
    dimensions: Sequence[int] = DIMENSIONS,
    within: float = 2.0,
    seeds: int = 2,
    steps: int = 150,
    learning_rate: float = 5e-2,
    out: Path | None = None,
    progress: Progress = quiet,
    interrupted: bool = False,
) -> Dimension:
    """The dimension that each distance (default: every one) needs for a distortion of at most `within`.

    With `out`, finished fits are kept there and not computed again. `interrupted`: only say what is there.
    """
    check_whole("dimension", "seeds", seeds, 1)
    check_whole("dimension", "steps", steps, 1)
    if not 1 <= within < float("inf") or not metrics or not dimensions or min(dimensions) < 1:
        raise ConfigError(
            "dimension: within must be finite and at least 1, and metrics and dimensions must name at least one,"
            f" got {within}, {metrics}, {dimensions}"
        )
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
    """The smallest distortion [M] of each D [S, S] that is seen while tables and heads are trained for it.

    Every D has `seeds` tables and heads of its own, and the best of them counts. All of them are trained at once; no
    gradient passes from one to another. Training ends as soon as every distortion is at most `within`. The loss is the
    squared error of d / D, and then, once distances are near D, a smooth form of log distortion.
    """
    spaces = [D for D in metrics for _ in range(seeds)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(latent_dim)
        heads = [head.build(latent_dim) for _ in spaces]
        table = torch.randn(len(spaces), max(map(len, spaces)), latent_dim) * START / (2 * latent_dim) ** 0.5
    (left, right, wanted), weights = _pairs(spaces, symmetric=heads[0].laws.symmetric), stack_module_state(heads)
    groups: list[dict[str, Any]] = [{"params": [table.requires_grad_()]}]
    if weights[0]:
        # A network moves further than a table at the same rate.
        groups.append({"params": list(weights[0].values()), "lr": learning_rate / 10})
    optimiser = torch.optim.Adam(groups, lr=learning_rate, fused=True)
    measure = vmap(lambda parameters, z, z_prime: functional_call(heads[0], parameters, (z, z_prime)))
    rows, best = torch.arange(len(spaces))[:, None], torch.full((len(metrics),), float("inf"))
    for step in range(steps):
        value = measure(weights, table[rows, left], table[rows, right])
        ratio = (value.mean(-1) if value.ndim == 3 else value) / wanted
        if step % CHECK_EVERY == 0 or step == steps - 1:
            best = torch.minimum(best, _distortion(ratio.detach()).view(-1, seeds).amin(1))
            if bool((best <= within).all()):
                break
        optimiser.zero_grad()
        _loss(ratio, step / steps).backward()
        optimiser.step()
    return np.asarray(best.numpy(), dtype=np.float64)


def _pairs(spaces: Sequence[Array], *, symmetric: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Left and right states and distances of all pairs, [I, P] each. A smaller space repeats its first pair."""
    indices = [np.stack(np.triu_indices(len(D), 1)) for D in spaces]
    if not symmetric:  # it is asked to become so
        indices = [np.concatenate([pair, pair[::-1]], axis=1) for pair in indices]
    most = max(pair.shape[1] for pair in indices)
    filled = [np.concatenate([pair, pair[:, :1].repeat(most - pair.shape[1], 1)], axis=1) for pair in indices]
    wanted = np.stack([D[pair[0], pair[1]] for D, pair in zip(spaces, filled, strict=True)])
    left, right = (torch.as_tensor(np.stack([pair[side] for pair in filled])) for side in (0, 1))
    return left, right, torch.as_tensor(wanted, dtype=torch.float32)


def _distortion(ratio: Tensor) -> Tensor:
    """max / min of ratios d / D [I, P] -> [I]; infinity where one is not above 0."""
    least, most = ratio.aminmax(dim=1)
    return torch.where(least > 0, most / least, float("inf"))


def _loss(ratio: Tensor, progress: float) -> Tensor:
    """Of ratios d / D [I, P]: their squared error in the first half, then a smooth form of max log - min log."""
    if progress < 0.5:
        return (ratio - 1).square().mean(1).sum()
    first, last = SHARPNESS
    sharpness: float = first * (last / first) ** (2 * progress - 1)
    x = sharpness * ratio.clamp(min=1e-6).log()
    return torch.stack([torch.logsumexp(x, 1), torch.logsumexp(-x, 1)]).sum() / sharpness


def _needs(
    tables: Mapping[tuple[str, str], Array],
    name: str,
    dimensions: Sequence[int],
    within: float,
    seeds: int,
    steps: int,
    learning_rate: float,
) -> list[Need]:
    """What the distance called `name` needs for each metric. Dimensions are tried from the smallest on."""
    needs = {key: Need(*key, name, None, float("inf")) for key in tables}
    for d in dimensions:
        left = [key for key, need in needs.items() if need.dimension is None]
        if not left:
            break
        try:
            head = match(name, d)
        except ConfigError:
            continue  # it has no form in so few dimensions
        found = least_distortions(
            [tables[key] for key in left], head, d,
            within=within, seeds=seeds, steps=steps, learning_rate=learning_rate,
        )  # fmt: skip
        for key, distortion in zip(left, found.tolist(), strict=True):
            if distortion <= within:
                needs[key] = Need(*key, name, d, distortion)
            elif distortion < needs[key].distortion:
                needs[key] = Need(*key, name, None, distortion)
    return list(needs.values())


def _correlations(spaces: Sequence[Space], cells: Sequence[Need]) -> dict[str, float]:
    size = {(space.mdp, space.metric): space.effective_dimension for space in spaces}
    found = {}
    for name in dict.fromkeys(cell.distance for cell in cells):
        own = [cell for cell in cells if cell.distance == name]
        needed = [float("inf") if cell.dimension is None else float(cell.dimension) for cell in own]
        found[name] = rank_correlation(np.array([size[cell.mdp, cell.metric] for cell in own]), np.array(needed))
    return found
