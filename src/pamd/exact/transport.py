"""The 1-Wasserstein distance between finite distributions, by exact optimal transport."""

from __future__ import annotations

import numpy as np

from pamd.errors import ShapeError
from pamd.exact.mdp import Array, check_distributions

__all__ = ["wasserstein"]


def wasserstein(p: Array, q: Array, cost: Array) -> float:
    """Return the minimum expected cost [S, T] over couplings of p [S] and q [T]."""
    if cost.shape != (len(p), len(q)):
        raise ShapeError(f"wasserstein: cost must be {[len(p), len(q)]}, got {list(cost.shape)}")
    check_distributions(np.stack([p]), "wasserstein: p")
    check_distributions(np.stack([q]), "wasserstein: q")
    rows, columns = np.flatnonzero(p), np.flatnonzero(q)
    if len(rows) == 1 or len(columns) == 1:  # Only one coupling exists.
        return float(p[rows] @ cost[np.ix_(rows, columns)] @ q[columns])
    try:
        import ot  # POT is an optional dependency and slow to import.
    except ImportError:
        raise ImportError("exact Wasserstein distances require POT: pip install 'pamd[exact]'") from None
    a, b = p[rows] / p[rows].sum(), q[columns] / q[columns].sum()  # POT requires exactly equal mass.
    return float(ot.emd2(a, b, np.ascontiguousarray(cost[np.ix_(rows, columns)])))
