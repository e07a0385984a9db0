"""Build finite MDPs: by hand, at random, from a grid, or by duplicating states."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pamd.errors import ConfigError, MDPError, UnknownNameError
from pamd.exact.mdp import FiniteMDP


class MDPBuilder:
    """Builds an MDP transition by transition.

    >>> builder = MDPBuilder(states=["left", "right"], actions=["stay", "go"])
    >>> builder.add("left", "go", {"right": 0.9, "left": 0.1}, reward=1.0)

    A state-action pair that was not added leads back to its state with reward 0.
    """

    def __init__(self, states: list[str], actions: list[str]) -> None:
        if not states or not actions or len(set(states)) < len(states) or len(set(actions)) < len(actions):
            raise MDPError("MDPBuilder requires at least one state and one action, with different names")
        self._states = {name: i for i, name in enumerate(states)}
        self._actions = {name: i for i, name in enumerate(actions)}
        self._transition = np.repeat(np.eye(len(states))[:, None], len(actions), axis=1)
        self._reward = np.zeros((len(states), len(actions)))

    def add(self, state: str, action: str, following: Mapping[str, float], reward: float = 0.0) -> MDPBuilder:
        """Add the next-state probabilities and the reward of `action` in `state`."""
        s, a = self._index(self._states, "state", state), self._index(self._actions, "action", action)
        row = np.zeros(len(self._states))
        for name, probability in following.items():
            row[self._index(self._states, "state", name)] = probability
        self._transition[s, a], self._reward[s, a] = row, reward
        return self

    def build(self, gamma: float = 0.9) -> FiniteMDP:
        """Validate and return the MDP."""
        return FiniteMDP(self._transition, self._reward, gamma, tuple(self._states))

    @staticmethod
    def _index(known: Mapping[str, int], kind: str, name: str) -> int:
        if name not in known:
            raise UnknownNameError(kind, name, known)
        return known[name]


def garnet(
    states: int, actions: int = 2, branching: int = 3, *, rng: np.random.Generator, gamma: float = 0.9
) -> FiniteMDP:
    """Generate a Garnet MDP.

    Each state-action pair leads to `branching` random states; rewards are uniform in [0, 1].
    """
    if states < 1 or actions < 1 or not 1 <= branching <= states:
        raise ConfigError(
            f"garnet requires states, actions >= 1 and 1 <= branching <= states, got {states}, {actions}, {branching}"
        )
    transition = np.zeros((states, actions, states))
    for s in range(states):
        for a in range(actions):
            # The gaps between sorted uniform numbers in [0, 1] are a uniform sample from the simplex.
            cuts = np.concatenate([[0.0], np.sort(rng.random(branching - 1)), [1.0]])
            transition[s, a, rng.choice(states, branching, replace=False)] = np.diff(cuts)
    return FiniteMDP(transition, rng.random((states, actions)), gamma)


_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


def grid_world(plan: str, *, slip: float = 0.0, gamma: float = 0.9) -> FiniteMDP:
    """Build a grid world. '#' is a wall, 'G' an absorbing goal with reward 1 per step, any other character is free.

    There are four moves. With probability `slip`, the move is random. A blocked move does not change the state.
    """
    if not 0 <= slip <= 1:
        raise ConfigError(f"grid_world: slip must lie in [0, 1], got {slip}")
    rows = [line.strip() for line in plan.strip().splitlines()]
    cells = {(i, j): mark for i, row in enumerate(rows) for j, mark in enumerate(row) if mark != "#"}
    if "G" not in cells.values():
        raise MDPError("grid_world requires at least one goal 'G' in its plan")
    index = {cell: s for s, cell in enumerate(cells)}
    transition = np.zeros((len(cells), len(_MOVES), len(cells)))
    reward = np.zeros((len(cells), len(_MOVES)))
    for (i, j), s in index.items():
        if cells[i, j] == "G":
            transition[s, :, s], reward[s] = 1, 1
            continue
        ends = [index.get((i + di, j + dj), s) for di, dj in _MOVES]
        for a, end in enumerate(ends):
            transition[s, a, end] += 1 - slip
            for other in ends:
                transition[s, a, other] += slip / len(ends)
    return FiniteMDP(transition, reward, gamma, tuple(f"{i},{j}" for i, j in cells))


def duplicated(mdp: FiniteMDP, copies: int = 2) -> FiniteMDP:
    """Replace every state by `copies` copies. The copies are entered with equal probability and are bisimilar.

    State s of the original becomes s, s + S, s + 2 S, ...
    """
    if copies < 1:
        raise ConfigError(f"duplicated: copies must be at least 1, got {copies}")
    transition = np.tile(mdp.transition, (copies, 1, copies)) / copies
    names = tuple(f"{name}'{k}" for k in range(copies) for name in mdp.states)
    return FiniteMDP(transition, np.tile(mdp.reward, (copies, 1)), mdp.gamma, names)


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
