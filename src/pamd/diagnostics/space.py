"""The size of an exact metric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pamd import exact as truth
from pamd.diagnostics.pairings import Array
from pamd.errors import ConfigError

__all__ = ["Space", "quotient", "space_of"]


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
