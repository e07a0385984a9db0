"""A report on which states are similar in a run's latent space, and on how this relates to behavior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from pamd.diagnostics.base import Progress, diagnostic, quiet, rank_correlation
from pamd.diagnostics.states import States, play
from pamd.distances import Distance, distance
from pamd.errors import ConfigError, ShapeError
from pamd.exact.mdp import Array
from pamd.representation.meters import denoising_factor
from pamd.training import Trained, load

_SecondView = Callable[[NDArray[np.uint8]], NDArray[np.uint8]]
"""Maps observations [N, k*C, H, W] to the same states with another background."""

_APART = 5
"""The minimum difference in index between neighbors of the same episode, in collected states. Consecutive frames are
always similar, which is not informative."""


@dataclass(frozen=True)
class LatentReport:
    """N states under K comparisons: the run's distance by name, "l2", and "state" if the simulator provides it."""

    kind: ClassVar[str] = "latents"
    method: str
    states: States
    latents: Array
    """[N, d]"""
    distances: dict[str, Array]
    """comparison -> [N, N]"""
    neighbors: dict[str, NDArray[np.int64]]
    """comparison -> [N, k]"""
    queries: NDArray[np.int64]
    """[Q]: the states for which neighbors are shown"""
    correlations: dict[str, dict[str, float]]
    """comparison -> rank correlation over all pairs with the differences in "value" and "reward" and the "state"
    distance"""
    agreement: dict[str, float]
    """comparison -> share of the k neighbors that are also neighbors in the simulator's state"""
    maps: dict[str, tuple[Array, Array]]
    """"pca" of the latents, "mds" of the run's distance: [N, 2] and the share of each axis [2]"""
    denoising: dict[str, float]
    """comparison -> denoising factor, if there is a distractor with clips or a second view"""


@diagnostic("latents")
def latents(
    run: Path,
    *,
    states: int = 400,
    episodes: int = 4,
    neighbors: int = 4,
    queries: int = 5,
    seed: int = 0,
    trust: bool = False,
    second_view: _SecondView | None = None,
    progress: Progress = quiet,
) -> LatentReport:
    """Examine the latents of a run: nearest neighbors as images, correlations with behavior, 2D maps.

    Args:
        run: a run directory; its policy plays new episodes
        states: number of states over all episodes
        episodes: number of episodes
        neighbors: nearest neighbors per state
        seed: seed of the episodes
        trust: import the module that the run's task names, as in gym:module:ID

    `second_view` shows the same states with another background. It is used for the denoising factor.
    """
    trained = load(run, trust=trust)
    seen = play(trained, states, episodes=episodes, seed=seed, progress=progress)
    z = _encoded(trained, seen.obs)
    learned, named = trained.distance, trained.config.method.distance
    comparators: dict[str, Distance[Any]] = {"l2": distance("l2", latent_dim=z.shape[1])}
    if learned is not None and named is not None:
        comparators = {named.name: learned, **comparators}
    with torch.no_grad():
        measured = {name: _symmetric(d.all_pairs(z).numpy().astype(np.float64)) for name, d in comparators.items()}
    if seen.simulator is not None:
        measured["state"] = _standardized_l2(seen.simulator)
    close = _close_in_time(seen)
    near = {name: _nearest_rows(matrix, neighbors, close) for name, matrix in measured.items()}
    flat = z.numpy().astype(np.float64)
    factors: dict[str, float] = {}
    with torch.no_grad():
        for split, (one, other) in seen.views.items():
            pair = _encoded(trained, one), _encoded(trained, other)
            factors |= {f"{name}, {split} clips": denoising_factor(d, *pair) for name, d in comparators.items()}
    if second_view is not None:
        other = second_view(seen.obs)
        if other.shape != seen.obs.shape:
            raise ShapeError(f"second_view must keep the shape {list(seen.obs.shape)}, got {list(other.shape)}")
        z_other = _encoded(trained, other)
        factors |= {name: denoising_factor(d, z, z_other) for name, d in comparators.items()}
    return LatentReport(
        method=trained.config.label,
        states=seen,
        latents=flat,
        distances=measured,
        neighbors=near,
        queries=np.linspace(0, len(seen) - 1, queries + 2).round().astype(np.int64)[1:-1],
        correlations=_correlations(measured, seen),
        agreement={name: _overlap(near[name], near["state"]) for name in near} if "state" in near else {},
        maps={"pca": _pca(flat), "mds": _classical_mds(next(iter(measured.values())))},
        denoising=factors,
    )


@torch.no_grad()
def _encoded(run: Trained, obs: NDArray[np.uint8]) -> torch.Tensor:
    return torch.cat([run.measured.encode(chunk) for chunk in torch.as_tensor(obs).split(256)])


def _symmetric(matrix: Array) -> Array:
    """Symmetrize the distances. Of the built-in distances, only `mlp` depends on the order of a pair."""
    return np.asarray((matrix + matrix.T) / 2)


def _close_in_time(states: States) -> NDArray[np.bool_]:
    order = np.arange(len(states))
    same_episode = states.episode[:, None] == states.episode
    return np.asarray(same_episode & (np.abs(order[:, None] - order) < _APART))


def _correlations(measured: dict[str, Array], states: States) -> dict[str, dict[str, float]]:
    upper = np.triu_indices(len(states), 1)
    truths = {name: np.abs(x[:, None] - x) for name, x in (("value", states.value), ("reward", states.reward))}
    if "state" in measured:
        truths["state"] = measured["state"]
    return {
        name: {what: rank_correlation(matrix[upper], truth[upper]) for what, truth in truths.items()}
        for name, matrix in measured.items()
    }


def _standardized_l2(states: Array) -> Array:
    """Return Euclidean distances after dividing each coordinate by its standard deviation. Constant ones are ignored.

    states: [N, S] -> [N, N].
    """
    spread = states.std(0)
    moving = states[:, spread > 1e-12] / spread[spread > 1e-12]
    return np.asarray(np.linalg.norm(moving[:, None] - moving[None], axis=-1))


def _nearest_rows(distances: Array, count: int, excluded: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the nearest columns [N, count] of every row, nearest first, except where `excluded` [N, N] is True."""
    allowed = np.where(excluded, np.inf, distances)
    if (np.isfinite(allowed).sum(1) < count).any():
        raise ConfigError(f"not every state has {count} candidates for neighbors; collect more states or more episodes")
    return np.argsort(allowed, axis=1, kind="stable")[:, :count]


def _overlap(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """Return the mean share of common neighbors of two results [N, k] of `_nearest_rows`."""
    shared = [len(set(a) & set(b)) / len(a) for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    return float(np.mean(shared))


def _pca(latents: Array) -> tuple[Array, Array]:
    """Return the first two principal coordinates [N, 2] and their shares of variance [2]. latents: [N, d]."""
    centerd = latents - latents.mean(0)
    left, scale, _ = np.linalg.svd(centerd, full_matrices=False)
    total = (scale**2).sum()
    share = scale[:2] ** 2 / total if total > 0 else np.zeros(2)
    return _two_columns(left[:, :2] * scale[:2]), _padded(share)


def _classical_mds(distances: Array) -> tuple[Array, Array]:
    """Return Torgerson's scaling of the symmetric part [N, N]: coordinates [N, 2] and shares of |eigenvalues| [2].

    It is exact for points in a plane.
    """
    n = len(distances)
    squared = ((distances + distances.T) / 2) ** 2
    centring = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-centring @ squared @ centring / 2)
    order = np.argsort(values)[::-1][:2]
    total = np.abs(values).sum()
    top = np.clip(values[order], 0, None)
    share = top / total if total > 0 else np.zeros(len(top))
    return _two_columns(vectors[:, order] * np.sqrt(top)), _padded(share)


def _two_columns(x: Array) -> Array:
    return np.pad(x, ((0, 0), (0, max(0, 2 - x.shape[1]))))


def _padded(share: Array) -> Array:
    return np.pad(share, (0, max(0, 2 - len(share))))
