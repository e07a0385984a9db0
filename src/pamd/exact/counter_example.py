"""An MDP of three states in which on-policy metrics merge states with different optimal values."""

from __future__ import annotations

from pamd.exact.build import MDPBuilder
from pamd.exact.mdp import FiniteMDP

__all__ = ["counter_example"]


def counter_example(gamma: float = 0.9) -> FiniteMDP:
    """Return an MDP in which on-policy bisimulation merges two states that must differ.

    Both "even" and "uneven" lead to the absorbing "end". In "even", both actions have reward 1/2; in "uneven", one has
    reward 1 and the other 0. Under the uniform policy, the mean rewards and the next states are equal, so the on-policy
    bisimulation metric, MICo and |V - V'| are all 0. However, the optimal return is 1/2 in one state and 1 in the
    other, so a policy on an encoder that merges them cannot be optimal in both. Metrics that compare actions separate
    them: `bisimulation`, `state_action` and `advantage_gap`.
    """
    builder = MDPBuilder(states=["even", "uneven", "end"], actions=["left", "right"])
    builder.add("even", "left", {"end": 1.0}, reward=0.5).add("even", "right", {"end": 1.0}, reward=0.5)
    builder.add("uneven", "left", {"end": 1.0}, reward=1.0).add("uneven", "right", {"end": 1.0}, reward=0.0)
    return builder.build(gamma)
