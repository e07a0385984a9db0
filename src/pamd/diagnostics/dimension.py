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
from typing import Any

import numpy as np

from pamd import exact as truth
from pamd.config import check_whole
from pamd.diagnostics.least_distortion import least_distortions
from pamd.diagnostics.ledger import Ledger
from pamd.diagnostics.matching import match
from pamd.diagnostics.pairings import Array
from pamd.diagnostics.source import Progress, quiet
from pamd.diagnostics.space import Space, quotient, space_of
from pamd.distances import DISTANCES
from pamd.errors import ConfigError
from pamd.exact import FiniteMDP
from pamd.ranks import rank_correlation

__all__ = ["Dimension", "Need", "dimension", "varied_mdps"]

DIMENSIONS = (1, 2, 3, 4, 6, 8)
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
    settings: dict[str, Any]
    spaces: tuple[Space, ...]
    cells: tuple[Need, ...]
    rank_correlation: dict[str, float]
    """By distance, the rank correlation of the needed dimension and the effective dimension. None counts as largest."""


def varied_mdps() -> dict[str, FiniteMDP]:
    """Return 22 MDPs of various dimensions: garnets with several branchings, and grids with two discounts."""
    rng = np.random.default_rng(0)
    garnets = {
        f"garnet {states}-{branching}": truth.garnet(states, 2, branching, rng=rng)
        for states in (8, 11)
        for branching in (1, 2, 3, 5, 7)
    }
    # Under the uniform policy, a slip changes nothing, but the discount does.
    grids = {
        f"{name}, gamma {gamma}": truth.grid_world(plan, gamma=gamma)
        for name, plan in _PLANS.items()
        for gamma in (0.9, 0.6)
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
    """Find the dimension that each distance (default: all) needs for a distortion of at most `within`.

    With `out`, finished fits are stored there and not recomputed. With `interrupted`, only stored fits are returned.
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
        selected = [cell for cell in cells if cell.distance == name]
        needed = [float("inf") if cell.dimension is None else float(cell.dimension) for cell in selected]
        found[name] = rank_correlation(np.array([size[cell.mdp, cell.metric] for cell in selected]), np.array(needed))
    return found
