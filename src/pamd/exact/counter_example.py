"""Three states that show what an on-policy metric forgets."""

from __future__ import annotations

from pamd.exact.build import MDPBuilder
from pamd.exact.mdp import FiniteMDP

__all__ = ["counter_example"]


def counter_example(gamma: float = 0.9) -> FiniteMDP:
    """An MDP in which on-policy bisimulation merges two states that must differ.

    Both "even" and "uneven" lead to the absorbing "end". In "even" both actions earn 1/2; in "uneven" one earns 1, the
    other 0. Under the uniform policy the mean rewards agree, and so do the next states: the on-policy bisimulation
    metric, MICo's and |V - V'| are all 0. Yet the best return is 1/2 in one state and 1 in the other, so no function
    of an encoder that merges them can act well in both. A metric that compares actions keeps them apart:
    `bisimulation`, `state_action` and `advantage_gap`.
    """
    builder = MDPBuilder(states=["even", "uneven", "end"], actions=["left", "right"])
    builder.add("even", "left", {"end": 1.0}, reward=0.5).add("even", "right", {"end": 1.0}, reward=0.5)
    builder.add("uneven", "left", {"end": 1.0}, reward=1.0).add("uneven", "right", {"end": 1.0}, reward=0.0)
    return builder.build(gamma)
