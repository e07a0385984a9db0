"""A finite MDP with S states and A actions, validated on construction."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pamd.errors import MDPError, ShapeError

Array = NDArray[np.float64]

_TOLERANCE = 1e-9


@dataclass(frozen=True)
class FiniteMDP:
    """A finite MDP with S states and A actions."""

    transition: Array
    """[S, A, S]: P(s' | s, a)"""
    reward: Array
    """[S, A]"""
    gamma: float = 0.9
    states: tuple[str, ...] = field(default=())
    """The names of the states; by default "0", "1", ..."""

    def __post_init__(self) -> None:
        try:
            transition, reward = (np.array(x, dtype=np.float64) for x in (self.transition, self.reward))
        except (TypeError, ValueError) as error:
            raise ShapeError(f"FiniteMDP requires arrays of numbers: {error}") from None
        if transition.ndim != 3 or transition.shape[0] != transition.shape[2] or 0 in transition.shape:
            raise ShapeError(f"FiniteMDP.transition must be [S, A, S], got {list(transition.shape)}")
        if reward.shape != transition.shape[:2]:
            raise ShapeError(f"FiniteMDP.reward must be {list(transition.shape[:2])}, got {list(reward.shape)}")
        check_distributions(transition.reshape(-1, transition.shape[2]), "FiniteMDP.transition", transition.shape[1])
        if not np.isfinite(reward).all():
            raise MDPError("FiniteMDP.reward must be finite")
        if not 0 <= self.gamma < 1:
            raise MDPError(f"FiniteMDP.gamma must lie in [0, 1), got {self.gamma}")
        states = self.states or tuple(str(s) for s in range(len(reward)))
        if len(set(states)) != len(reward) or len(states) != len(reward):
            raise ShapeError(f"FiniteMDP.states must name {len(reward)} states, got {len(set(states))} different names")
        for array in (transition, reward):
            array.setflags(write=False)
        object.__setattr__(self, "transition", transition)
        object.__setattr__(self, "reward", reward)
        object.__setattr__(self, "states", states)

    @property
    def n_states(self) -> int:
        return int(self.transition.shape[0])

    @property
    def n_actions(self) -> int:
        return int(self.transition.shape[1])

    def under(self, policy: Array) -> tuple[Array, Array]:
        """Return P^pi [S, S] and r^pi [S] of a policy [S, A]."""
        policy = np.asarray(policy, dtype=np.float64)
        if policy.shape != self.reward.shape:
            raise ShapeError(f"policy must be {list(self.reward.shape)}, got {list(policy.shape)}")
        check_distributions(policy, "policy")
        return np.einsum("sa,sat->st", policy, self.transition), (policy * self.reward).sum(1)


def uniform_policy(mdp: FiniteMDP) -> Array:
    """Return the uniform policy [S, A]."""
    return np.full(mdp.reward.shape, 1 / mdp.n_actions)


def check_distributions(rows: Array, what: str, actions: int = 1) -> None:
    """Raise MDPError unless every row is a distribution. The error names the first invalid row."""
    finite = np.asarray(np.isfinite(rows).all(axis=1))
    total = np.where(finite, np.where(finite[:, None], rows, 0.0).sum(1), np.nan)
    bad = ~finite | (np.abs(total - 1) > _TOLERANCE) | (rows < 0).any(1)
    if bad.any():
        row = int(np.argmax(bad))
        at = f"state {row // actions}, action {row % actions}" if actions > 1 else f"state {row}"
        raise MDPError(
            f"{what}: the row of {at} must be nonnegative and sum to one, got {rows[row]} (sum {total[row]})"
        )
