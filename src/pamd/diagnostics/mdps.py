"""The finite MDPs of the diagnostics `exact` and `dimension`."""

from __future__ import annotations

import numpy as np

from pamd import exact as truth
from pamd.exact import FiniteMDP

_GRID = """
    .....
    .##..
    ...#.
    .#..G
"""
_PLANS = {
    "corridor": "............G",
    "short corridor": ".....G",
    "open": "....\n....\n...G",
    "ring": "....\n.##.\n.##.\n...G",
    "rooms": "..#..\n.....\n..#.G",
    "comb": ".....\n.#.#.\n.#.#G",
}


def standard_mdps() -> dict[str, FiniteMDP]:
    """Return a random MDP and a grid with walls and a goal."""
    return {
        "garnet": truth.garnet(20, rng=np.random.default_rng(0)),
        "grid": truth.grid_world(_GRID, slip=0.1),
    }


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
