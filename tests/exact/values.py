"""The values of a policy, computed by a linear solve."""

from __future__ import annotations

import numpy as np

from pamd.exact import FiniteMDP

__all__ = ["value"]


def value(mdp: FiniteMDP, policy: np.ndarray) -> np.ndarray:
    """Return V^pi [S]."""
    transition, reward = mdp.under(policy)
    return np.linalg.solve(np.eye(mdp.n_states) - mdp.gamma * transition, reward)
