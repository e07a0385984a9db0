"""Rank correlation, for diagnostics and reports."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["rank_correlation"]

Array = NDArray[np.float64]


def rank_correlation(x: Array, y: Array) -> float:
    """Return Spearman's rank correlation with averaged ties; 0 if one side is constant. x, y: [P]."""
    ranks = [_ranks(np.asarray(side, dtype=np.float64)) for side in (x, y)]
    a, b = (rank - rank.mean() for rank in ranks)
    scale = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale > 0 else 0.0


def _ranks(x: Array) -> Array:
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: Array = (last - (counts - 1) / 2)[inverse]
    return shared
