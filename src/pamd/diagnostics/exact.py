"""Embed exact behavioral metrics with each distance.

The encoder is a table with one latent vector per state, so that only the distance limits the fit. A trained
table shows what the distance can express; a table frozen at random vectors shows what its head can do alone. Some pairs
are held out of the fit to detect heads that only memorize pairs.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from pamd import exact as truth
from pamd.diagnostics.base import Ledger, Progress, diagnostic, quiet, rank_correlation
from pamd.diagnostics.matching import Head, match
from pamd.diagnostics.mdps import standard_mdps, varied_mdps
from pamd.distances import DISTANCES, Distance
from pamd.errors import ConfigError
from pamd.exact import FiniteMDP
from pamd.exact.mdp import Array

_DISTANCES = ("l2", "cosine", "mico", "diagonal", "adaptive-diagonal", "pamd", "mlp")
_DIMENSIONS = (2, 4, 8, 16, 32)
_ENCODERS: tuple[Literal["frozen", "trainable"], ...] = ("frozen", "trainable")
START = 2.0
"""The typical initial distance between random latents; the mean of the metric is 1. If it is much larger, a norm
converges to bad minima. If it is smaller, a trace-normalized form, which never exceeds the norm, cannot reach the
maximum of the metric."""


@dataclass(frozen=True)
class Space:
    """One exact metric and its size."""

    mdp: str
    metric: str
    states: int
    """The number of states. States at distance 0 count once."""
    effective_dimension: float
    doubling_dimension: float
    radius: tuple[float, ...]
    """In units of the mean distance."""
    covering_number: tuple[int, ...]
    """The number of balls at each radius."""


@dataclass(frozen=True)
class Cell:
    """One fit, measured on all pairs of different states unless stated otherwise."""

    mdp: str
    metric: str
    distance: str
    latent_dim: int
    encoder: Literal["frozen", "trainable"]
    seed: int
    distortion: float
    """max(d / D) / min(d / D) over pairs with D > 0. 1 is perfect; infinity if some d is not above 0."""
    rank_correlation: float
    residual: float
    """`_relative_residual` of the fitted pairs"""
    held_out: float
    """`_relative_residual` of the held-out pairs"""
    violations: float | None = None
    """The share of triples of different states whose fitted distances violate the triangle inequality; None in results
    of earlier versions."""


@dataclass(frozen=True)
class Exact:
    kind: ClassVar[str] = "exact"
    settings: dict[str, Any]
    metrics: dict[str, Array]
    """"mdp metric" -> [S, S], mean 1 off the diagonal"""
    cells: tuple[Cell, ...]
    spaces: tuple[Space, ...] = ()
    """The size of each metric."""


def distortion(d: Array, D: Array) -> float:
    """Return the distortion max(d / D) / min(d / D) over pairs with D > 0. d, D: [P]."""
    positive = 1e-9 * max(float(D.max(initial=0.0)), 1e-300) < D
    ratio = d[positive] / D[positive]
    if not len(ratio):
        return 1.0
    return float(ratio.max() / ratio.min()) if ratio.min() > 0 else float("inf")


def violations(d: Array) -> float:
    """Return the share of triples of different states with d(x, z) > d(x, y) + d(y, z), for symmetric d [S, S]."""
    detour = d[:, :, None] + d[None]  # [x, y, z]
    broken = d[:, None, :] > detour + 1e-6 * np.abs(detour)
    x, y, z = np.ogrid[tuple(slice(len(d)) for _ in range(3))]
    different = (x != y) & (y != z) & (x < z)
    return float(broken[different].mean()) if different.any() else 0.0


def _relative_residual(d: Array, D: Array) -> float:
    """Return the scale-invariant error min over c of |c d - D|^2 / |D - mean D|^2. d, D: [P].

    A constant distance has 1. The variance is used instead of |D|^2, because a metric may be nearly constant.
    """
    error = float(D @ D) - (float(d @ D) ** 2 / float(d @ d) if d.any() else 0.0)
    spread = float(np.square(D - D.mean()).sum())
    return max(error, 0.0) / spread if spread > 0 else 0.0


def _metric_of(mdp: FiniteMDP, metric: str) -> Array:
    """Return one of `pamd.exact.METRICS` under the uniform policy, [S, S] with mean 1 off the diagonal."""
    # Optimal transport is slow, and embeddings are far less accurate than this tolerance.
    D = truth.metric(metric, mdp, tolerance=1e-4 if "bisimulation" in metric else 1e-9)
    scale = D[~np.eye(len(D), dtype=bool)].mean()
    if not scale > 0:
        raise ConfigError(f"all states of the MDP are at distance 0 under {metric!r}: there is nothing to embed")
    return np.asarray(D / scale)


@diagnostic("exact")
def exact(
    mdps: Mapping[str, FiniteMDP] | None = None,
    *,
    suite: Literal["two", "varied"] = "two",
    metrics: Sequence[str] = ("bisimulation", "mico"),
    distances: Sequence[str] = _DISTANCES,
    dimensions: Sequence[int] = _DIMENSIONS,
    seeds: int = 2,
    steps: int = 400,
    learning_rate: float = 1e-2,
    held_out: float = 0.2,
    out: Path | None = None,
    progress: Progress = quiet,
    interrupted: bool = False,
) -> Exact:
    """Embed exact metrics of finite MDPs with each distance, with trained and with frozen latents.

    Finished fits are kept. After an interruption, rerun the same command to continue.

    Args:
        suite: the MDPs: two (a garnet and a grid) or varied (22 garnets and grids)
        metrics: bisimulation, policy-bisimulation, mico, value, advantage, n-step, state-action or kernel
        distances: distances to test; see `pamd list distances`
        dimensions: latent dimensions
        seeds: fits with different seeds
        steps: gradient steps per fit

    With `out`, finished fits are stored there and not recomputed. With `interrupted`, only stored fits are returned.
    """
    if seeds < 1 or steps < 1 or not 0 < held_out < 1:
        raise ConfigError(f"exact: seeds, steps >= 1 and 0 < held_out < 1, got {seeds}, {steps}, {held_out}")
    for what, names in (("metrics", metrics), ("distances", distances), ("dimensions", dimensions)):
        if not names or (what == "dimensions" and min(dimensions) < 1):
            raise ConfigError(f"exact: {what} must name at least one, and dimensions be at least 1, got {names}")
    for name in distances:
        DISTANCES.get(name)
    if mdps is None:
        mdps = varied_mdps() if suite == "varied" else standard_mdps()
    tables = {}
    for count, (mdp, metric) in enumerate(itertools.product(mdps, metrics)):
        progress("solving MDPs", count, len(mdps) * len(metrics))
        tables[mdp, metric] = _metric_of(mdps[mdp], metric)
    settings = {"steps": steps, "learning_rate": learning_rate, "held_out": held_out}
    # The number of states identifies an MDP. The last digits of its distances depend on the machine.
    states = {mdp: float(len(D)) for (mdp, _), D in tables.items()}
    ledger = Ledger(None if out is None else out / "cells.jsonl", {**settings, "mdps": states})
    plan = list(itertools.product(range(seeds), tables, distances, dimensions, _ENCODERS))
    keys = [" ".join(map(str, (*table, name, d, encoder, seed))) for seed, table, name, d, encoder in plan]
    for count, (seed, table, name, d, encoder) in enumerate(plan if not interrupted else ()):
        if keys[count] not in ledger:
            D, head = tables[table], match(name, d)
            fitted, rest = _split(len(D), held_out, seed)
            fit = _embed(
                D, head, d, trainable=encoder == "trainable", seed=seed, pairs=fitted, steps=steps,
                learning_rate=learning_rate,
            )  # fmt: skip
            cell = Cell(*table, name, d, encoder, seed, *_measured(fit, D, fitted, rest))
            ledger.add(keys[count], dataclasses.asdict(cell))
        progress("fitting", count + 1, len(plan))
    cells = tuple(Cell(**ledger[key]) for key in keys if key in ledger)
    spaces = tuple(space_of(*table, quotient(D)) for table, D in tables.items())
    return Exact(settings, {" ".join(table): D for table, D in tables.items()}, cells, spaces)


def _embed(
    D: Array,
    head: Head,
    latent_dim: int,
    *,
    trainable: bool,
    seed: int,
    pairs: NDArray[np.int64],
    steps: int,
    learning_rate: float,
) -> Array:
    """Fit a distance, and the table if `trainable`, to D [S, S] on `pairs` [P, 2]. Return the distances [S, S]."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        table = torch.randn(len(D), latent_dim) * START / (2 * latent_dim) ** 0.5
        distance: Distance[Any] = head.build(latent_dim)
    table.requires_grad_(trainable)
    learned = [*([table] if trainable else []), *(p for p in distance.parameters() if p.requires_grad)]
    if not distance.properties.symmetric:  # Train both orders, so that the distance learns to be symmetric.
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
    left, right = (torch.as_tensor(pairs[:, side].copy()) for side in (0, 1))
    target = torch.as_tensor(D, dtype=torch.float32)[left, right]
    if learned:
        optimizer = torch.optim.Adam(learned, lr=learning_rate, fused=True)
        for _ in range(steps):
            value = distance(table[left], table[right])
            loss = F.mse_loss(value, target if value.ndim == 1 else target[:, None].expand_as(value))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        values = distance.all_pairs(table).numpy().astype(np.float64)
    return np.asarray((values + values.T) / 2)


def _measured(d: Array, D: Array, fitted: NDArray[np.int64], rest: NDArray[np.int64]) -> tuple[float, ...]:
    """Return the last five fields of a `Cell` for distances d and the metric D, [S, S] each."""
    upper = np.triu_indices(len(D), 1)
    some, others = ((d[p[:, 0], p[:, 1]], D[p[:, 0], p[:, 1]]) for p in (fitted, rest))
    whole = d[upper], D[upper]
    errors = _relative_residual(*some), _relative_residual(*others)
    return distortion(*whole), rank_correlation(*whole), *errors, violations(d)


def _split(states: int, held_out: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split the pairs s < s' into fitted pairs [P, 2] and held-out pairs [R, 2], at least one each."""
    pairs = np.random.default_rng(seed).permutation(np.stack(np.triu_indices(states, 1), axis=1))
    if len(pairs) < 2:
        raise ConfigError(f"exact: {states} states make {len(pairs)} pairs; at least 3 states are required")
    count = min(len(pairs) - 1, max(1, round(held_out * len(pairs))))
    return pairs[count:], pairs[:count]


def space_of(mdp: str, metric: str, D: Array) -> Space:
    """Return the size of D [S, S], a result of `quotient`."""
    covering = truth.covering(D)
    radius, number = tuple(covering.radius.tolist()), tuple(covering.number.tolist())
    return Space(mdp, metric, len(D), covering.slope, truth.doubling_dimension(D), radius, number)


def quotient(D: Array) -> Array:
    """Return D [S, S] without self-distances, with states at distance 0 merged and mean 1 off the diagonal."""
    D = truth.pseudometric(D)
    close = 1e-6 * D.max(initial=0.0) >= D
    first = np.unique(close.argmax(1))
    D = D[np.ix_(first, first)]
    if len(D) < 2:
        raise ConfigError("all states of the MDP are at distance 0 under this metric: there is nothing to embed")
    return np.asarray(D / D[np.triu_indices(len(D), 1)].mean())
