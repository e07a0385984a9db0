"""The size of a finite metric space: covering numbers, effective dimension and doubling dimension.

A pseudometric is treated as its quotient: states at distance 0 are in each other's balls and are covered together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pamd.errors import ConfigError, ShapeError, install_command
from pamd.exact.mdp import Array
from pamd.exact.metrics import reduced

_TOLERANCE = 1e-9
"""The tolerance relative to the diameter. Distances that differ by less are considered equal."""


@dataclass(frozen=True)
class Covering:
    """Covering numbers at several radii."""

    radius: Array
    """[R], in decreasing order"""
    number: NDArray[np.int64]
    """[R]: the number of balls of each radius that cover the space"""

    @property
    def slope(self) -> float:
        """The least-squares slope of log N against log 1 / radius; 0 if there are fewer than two radii."""
        if len(self.radius) < 2:
            return 0.0
        x, y = np.log(1 / self.radius), np.log(self.number)
        x = x - x.mean()
        return float(x @ y / (x @ x))


def pseudometric(D: Array) -> Array:
    """Return D [S, S] without self-distances (see `reduced`), with negative values set to 0. A metric is unchanged."""
    if D.ndim != 2 or D.shape[0] != D.shape[1]:
        raise ShapeError(f"a metric must be [S, S], got {list(D.shape)}")
    return np.maximum(reduced(D), 0)


def covering_number(D: Array, radius: float) -> int:
    """Return the minimum number of closed balls of this radius, centered at states, that cover the space D [S, S]."""
    if not radius >= 0:
        raise ConfigError(f"covering_number: radius must be at least 0, got {radius}")
    D = pseudometric(D)
    return _least_cover(radius + _slack(D) >= D)


def covering(D: Array, radii: Sequence[float] | None = None) -> Covering:
    """Return the covering numbers of D [S, S].

    The default is 12 radii in geometric steps, from the diameter down to 0.9 times the median distance to the nearest
    neighbor. At that radius most balls contain one state, so smaller radii would only count the states.
    """
    D = pseudometric(D)
    if radii is None:
        apart = np.where(_slack(D) < D, D, np.inf).min(1)
        apart = apart[np.isfinite(apart)]
        radii = () if not len(apart) else tuple(np.geomspace(D.max(), 0.9 * np.median(apart), 12))
    falling = sorted(radii, reverse=True)
    return Covering(np.array(falling), np.array([covering_number(D, r) for r in falling], dtype=np.int64))


def effective_dimension(D: Array) -> float:
    """Return the slope of log N(radius) in `covering`; 0 if all states are at distance 0."""
    return covering(D).slope


def doubling_dimension(D: Array) -> float:
    """Return log2 of the smallest N such that N balls of half the radius cover any ball of D [S, S].

    Up to a constant, it is a lower bound on the dimension in which a norm can embed D with small distortion.
    """
    D = pseudometric(D)
    slack, most, balls = _slack(D), 1, []
    for s in range(len(D)):
        for radius in np.unique(D[s][D[s] > slack]):
            covers = D[:, D[s] <= radius + slack] <= radius / 2 + slack
            balls.append((_greedy_cover(covers), covers))
    for greedy, covers in sorted(balls, key=lambda ball: -ball[0]):
        # A greedy cover is at least as large as the minimum, so no remaining ball can exceed the current maximum.
        if greedy <= most:
            break
        most = max(most, _least_cover(covers))
    return float(np.log2(most))


def _slack(D: Array) -> float:
    return _TOLERANCE * float(D.max(initial=0.0))


def _greedy_cover(covers: NDArray[np.bool_]) -> int:
    """Return the size of a greedy cover of all columns by rows of covers [S, T]."""
    left, count = np.ones(covers.shape[1], dtype=bool), 0
    while left.any():
        left &= ~covers[(covers & left).sum(1).argmax()]
        count += 1
    return count


def _least_cover(covers: NDArray[np.bool_]) -> int:
    """Return the minimum number of rows of covers [S, T] that cover all columns, by integer programming."""
    if (most := _greedy_cover(covers)) <= 2:  # One row covers everything, or a greedy cover of two is minimal.
        return most
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp  # SciPy is an optional dependency.
    except ImportError:
        raise ImportError(f"covering numbers require SciPy: {install_command('exact')}") from None
    rows = np.unique(covers, axis=0)
    covered = LinearConstraint(np.unique(rows.T, axis=0).astype(float), lb=1)
    solution = milp(np.ones(len(rows)), constraints=covered, integrality=1, bounds=Bounds(0, 1))
    return round(float(solution.fun))
