"""Pure functions on distance matrices [N, N]: neighbors and two-dimensional maps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pamd.errors import ConfigError

__all__ = ["classical_mds", "nearest_rows", "overlap", "pca", "standardized_l2"]

Array = NDArray[np.float64]


def standardized_l2(states: Array) -> Array:
    """Return Euclidean distances after dividing each coordinate by its standard deviation. Constant ones are ignored.

    states: [N, S] -> [N, N].
    """
    spread = states.std(0)
    moving = states[:, spread > 1e-12] / spread[spread > 1e-12]
    return np.asarray(np.linalg.norm(moving[:, None] - moving[None], axis=-1))


def nearest_rows(distances: Array, count: int, excluded: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the nearest columns [N, count] of every row, nearest first, except where `excluded` [N, N] is True."""
    allowed = np.where(excluded, np.inf, distances)
    if (np.isfinite(allowed).sum(1) < count).any():
        raise ConfigError(f"not every state has {count} candidates for neighbors; collect more states or more episodes")
    return np.argsort(allowed, axis=1, kind="stable")[:, :count]


def overlap(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """Return the mean share of common neighbors of two results [N, k] of `nearest_rows`."""
    shared = [len(set(a) & set(b)) / len(a) for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    return float(np.mean(shared))


def pca(latents: Array) -> tuple[Array, Array]:
    """Return the first two principal coordinates [N, 2] and their shares of variance [2]. latents: [N, d]."""
    centerd = latents - latents.mean(0)
    left, scale, _ = np.linalg.svd(centerd, full_matrices=False)
    total = (scale**2).sum()
    share = scale[:2] ** 2 / total if total > 0 else np.zeros(2)
    return _two_columns(left[:, :2] * scale[:2]), _padded(share)


def classical_mds(distances: Array) -> tuple[Array, Array]:
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
