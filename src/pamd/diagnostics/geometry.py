"""Geometry of the learned quadratic form of a run, over pairs of states from its replay."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pamd.diagnostics.base import Progress, diagnostic, quiet
from pamd.diagnostics.transitions import choose
from pamd.distances import DISTANCES, Distance
from pamd.distances.pamd import QuadraticForm
from pamd.errors import ConfigError, ShapeError
from pamd.exact.mdp import Array
from pamd.representation.meters import entropy_rank
from pamd.training import Trained, load

_ACTIVE = 0.01
"""A guard (an epsilon or the ridge) is active if it exceeds this share of the guarded value."""


@dataclass(frozen=True)
class Geometry:
    """G_tilde over P pairs of different states. Arrays are float64."""

    kind: ClassVar[str] = "geometry"
    distance: str
    latent_dim: int
    eigenvalues: Array
    """[P, d], largest first"""
    condition: Array
    """[P]"""
    effective_rank: Array
    """[P]"""
    off_diagonal: Array
    """[P]: share of |G|_F^2"""
    anisotropy: Array
    """[P]: |G - I/d|_F"""
    variation: Array
    """[P]: |G_p - mean G|_F / |mean G|_F"""
    mean_matrix: Array
    """[d, d]"""
    typical_matrix: Array
    """[d, d]: of the pair whose effective rank is the median"""
    value: Array
    """[P]"""
    lower: Array
    """[P]: lower bound of lem:spectral_sandwich"""
    upper: Array
    """[P]: upper bound"""
    dead_share: float | None
    """The share of ReHU inputs at or below 0, where the gradient is 0; None if the distance has no ReHU."""
    dead_everywhere: int | None
    """The number of coordinates of L's diagonal that are dead on every pair."""
    guards: dict[str, float]
    """The share of pairs on which each guard is active (`_ACTIVE`)."""
    triangle_violations: float
    """The share of triples with d(x, z) > d(x, y) + d(y, z)"""
    triangle_excess: float
    """The largest excess, as a share of d(x, y) + d(y, z)"""
    triples: int


@diagnostic("geometry")
def geometry(run: Path, *, pairs: int = 512, seed: int = 0, progress: Progress = quiet) -> Geometry:
    """Examine the learned matrices of a run: spectrum, anisotropy, dead diagonals, guards, triangle inequality.

    The checkpoint is the newest one, and the states are from the run's replay.

    Args:
        run: a run directory whose distance is a quadratic form
        pairs: pairs of latents to examine
        seed: seed of the pairs
    """
    trained = load(run)
    distance = trained.distance
    _check_quadratic(distance, trained.config.method.name)
    assert isinstance(distance, QuadraticForm)
    if pairs < 2:
        raise ConfigError(f"geometry requires at least 2 pairs, got {pairs}")
    z = _replay_latents(trained, min(pairs, len(trained.replay())), seed, progress)
    name = trained.config.method.distance
    return geometry_of(distance, z, pairs=pairs, seed=seed, name="" if name is None else name.name)


def _check_quadratic(distance: Distance[Any] | None, method: str) -> None:
    """Raise ConfigError unless there is a distance and it has a matrix."""
    if distance is None:
        raise ConfigError(f"method {method!r} has no distance, so there is no geometry to examine")
    if not isinstance(distance, QuadraticForm):
        with_matrix = [name for name in DISTANCES.names() if issubclass(DISTANCES.get(name), QuadraticForm)]
        raise ConfigError(
            f"the distance of method {method!r} ({type(distance).__name__}) is not a quadratic form and has no matrix;"
            f" geometry requires one of {', '.join(with_matrix)}"
        )


@torch.no_grad()
def _replay_latents(run: Trained, count: int, seed: int, progress: Progress = quiet) -> Tensor:
    """Return latents [N, d] of `count` states sampled from the run's replay."""
    replay = run.replay()
    shape, seen = replay.layout.frame_shape, run.config.env.size
    if len(shape) == 3 and (size := shape[1]) != seen:
        raise ShapeError(f"the run's encoder reads {seen} x {seen} pixels, but its replay has {size} x {size}")
    chosen = choose(replay, count, "spread", np.random.default_rng(seed))
    parts = []
    for start in range(0, count, 256):
        parts.append(run.measured.encode(replay.take(chosen[start : start + 256]).obs))
        progress("encoding states", min(start + 256, count), count)
    return torch.cat(parts)


@torch.no_grad()
def geometry_of(
    distance: QuadraticForm[Any], z: Tensor, *, pairs: int = 512, seed: int = 0, name: str = ""
) -> Geometry:
    """Compute the geometry over pairs of different rows of z [N, d], in float64 because guards are small."""
    if len(z) < 3:
        raise ConfigError(f"geometry requires at least 3 states, got {len(z)}")
    distance, z = copy.deepcopy(distance).double(), z.double()
    rng = np.random.default_rng(seed)
    i, j, k = (torch.as_tensor(row) for row in _different(len(z), pairs, rng).T)
    x, y = z[i], z[j]
    G = distance.matrix(x, y)
    eigenvalues = _spectrum(G)
    rank = entropy_rank(eigenvalues)
    value = distance(x, y)
    lower, upper = distance.bounds(x, y)
    inputs = distance.rehu_inputs(x, y)
    around = distance(x, z[k]) + distance(z[k], y)
    excess = (value - around) / around.clamp_min(1e-12)
    dead = None if inputs is None else inputs <= 0
    return Geometry(
        distance=name or type(distance).__name__,
        latent_dim=distance.latent_dim,
        eigenvalues=_array(eigenvalues),
        condition=_array(_condition_number(eigenvalues)),
        effective_rank=_array(rank),
        off_diagonal=_array(_off_diagonal_share(G)),
        anisotropy=_array(anisotropy(G / _trace(distance))),
        variation=_array(pair_variation(G)),
        mean_matrix=_array(G.mean(0)),
        typical_matrix=_array(G[int(rank.argsort()[len(rank) // 2])]),
        value=_array(value),
        lower=_array(lower),
        upper=_array(upper),
        dead_share=None if dead is None else float(dead.double().mean()),
        dead_everywhere=None if dead is None else int(dead.flatten(0, 1).all(0).sum()),
        guards=_guards(distance, G, eigenvalues, x - y, lower),
        triangle_violations=float((excess > 1e-9).double().mean()),
        triangle_excess=float(excess.max().clamp_min(0)),
        triples=len(excess),
    )


def _spectrum(G: Tensor) -> Tensor:
    """Return the eigenvalues, largest first, with rounding errors set to 0. G: [P, d, d] -> [P, d]."""
    ascending: Tensor = torch.linalg.eigvalsh(G)
    rounding = G.shape[-1] * torch.finfo(G.dtype).eps * ascending[:, -1:]
    return torch.where(ascending > rounding, ascending, 0).flip(-1)


def _condition_number(eigenvalues: Tensor) -> Tensor:
    """Return the largest over the smallest eigenvalue; infinity if the smallest is 0. [P, d] -> [P]."""
    return eigenvalues[:, 0] / eigenvalues[:, -1]


def _off_diagonal_share(G: Tensor) -> Tensor:
    """Return the off-diagonal share of |G|_F^2; 0 if G only weights coordinates. [P, d, d] -> [P]."""
    total = G.square().sum((1, 2))
    return 1 - G.diagonal(dim1=1, dim2=2).square().sum(-1) / total


def anisotropy(G: Tensor) -> Tensor:
    """Return |G - I/d|_F, which the auxiliary term rewards; at most sqrt(1 - 1/d) for trace 1. [P, d, d] -> [P]."""
    d = G.shape[-1]
    distance: Tensor = torch.linalg.matrix_norm(G - torch.eye(d, dtype=G.dtype, device=G.device) / d)
    return distance


def pair_variation(G: Tensor) -> Tensor:
    """Return |G_p - mean G|_F / |mean G|_F; 0 if all pairs share one matrix. [P, d, d] -> [P]."""
    mean = G.mean(0)
    variation: Tensor = torch.linalg.matrix_norm(G - mean) / torch.linalg.matrix_norm(mean)
    return variation


def _guards(
    distance: QuadraticForm[Any], G: Tensor, eigenvalues: Tensor, delta: Tensor, lower: Tensor
) -> dict[str, float]:
    config = distance.config
    quadratic = torch.einsum("pi,pij,pj->p", delta, G, delta)
    guards = {"root epsilon": quadratic < config.root_epsilon / (_ACTIVE if config.root == "add" else 1.0)}
    if config.trace_normalized:
        guards["trace epsilon"] = 1 - eigenvalues.sum(-1) / _trace(distance) > _ACTIVE
    if config.ridge is not None:
        # The lemma's lower bound is the contribution of the ridge to the value, before the root guard.
        squared = (lower / distance.scale).square() - (config.root_epsilon if config.root == "add" else 0.0)
        guards["ridge"] = squared > _ACTIVE * quadratic
    return {name: float(active.double().mean()) for name, active in guards.items()}


def _trace(distance: QuadraticForm[Any]) -> float:
    """Return the trace of G_tilde; 1 if it is not normalized."""
    return float(distance.config.trace_of(distance.latent_dim))


def _different(states: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return rows [count, 3] of three different states each."""
    first = rng.integers(0, states, count)
    second = (first + rng.integers(1, states, count)) % states
    third = rng.integers(0, states - 2, count)
    for taken in np.sort(np.stack([first, second]), axis=0):
        third += third >= taken
    return np.stack([first, second, third], axis=1)


def _array(tensor: Tensor) -> Array:
    return tensor.numpy().astype(np.float64)
