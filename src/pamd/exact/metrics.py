"""Exact behavioral metrics of finite MDPs, as fixed points [S, S] of their operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pamd.errors import ConfigError, PamdError, ShapeError
from pamd.exact.mdp import Array, FiniteMDP
from pamd.exact.transport import wasserstein

__all__ = [
    "Operator",
    "bisimulation",
    "bisimulation_operator",
    "check_square",
    "check_weight",
    "fixed_point",
    "from_zero",
    "mico",
    "mico_operator",
    "policy_bisimulation",
    "policy_bisimulation_operator",
    "reduced",
]

Operator = Callable[[Array], Array]


def bisimulation_operator(mdp: FiniteMDP, c_R: float = 1.0) -> Operator:
    """Return eq:bisim_operator: max over actions of c_R |r - r'| + gamma W_d(P, P'), on symmetric d [S, S]."""
    gap = check_weight(c_R) * np.abs(mdp.reward[:, None] - mdp.reward[None])  # [S, S, A]

    def apply(d: Array) -> Array:
        check_square(d, mdp.n_states)
        per_action = [gap[..., a] + mdp.gamma * _all_wasserstein(mdp.transition[:, a], d) for a in range(mdp.n_actions)]
        return np.asarray(np.max(per_action, axis=0))

    return apply


def policy_bisimulation_operator(mdp: FiniteMDP, policy: Array, c_R: float = 1.0) -> Operator:
    """Return DBC's on-policy version of the operator: c_R |r^pi - r^pi'| + gamma W_d(P^pi, P^pi')."""
    transition, reward = mdp.under(policy)
    gap = check_weight(c_R) * np.abs(reward[:, None] - reward)

    def apply(d: Array) -> Array:
        check_square(d, mdp.n_states)
        return gap + mdp.gamma * _all_wasserstein(transition, d)

    return apply


def mico_operator(mdp: FiniteMDP, policy: Array, c_R: float = 1.0) -> Operator:
    """Return eq:mico_operator: c_R |r^pi - r^pi'| + gamma E[U(next, next')], with independent next states."""
    transition, reward = mdp.under(policy)
    gap = check_weight(c_R) * np.abs(reward[:, None] - reward)

    def apply(U: Array) -> Array:
        check_square(U, mdp.n_states)
        return gap + mdp.gamma * transition @ U @ transition.T

    return apply


def fixed_point(
    operator: Operator, start: Array, gamma: float, *, tolerance: float = 1e-9, max_iterations: int = 100_000
) -> Array:
    """Iterate a gamma-contraction until it is guaranteed to be within `tolerance` of its fixed point."""
    if not 0 <= gamma < 1:
        raise ConfigError(f"fixed_point: gamma must lie in [0, 1), got {gamma}")
    if not tolerance > 0 or max_iterations < 1:
        raise ConfigError(f"fixed_point: tolerance and max_iterations must be above 0: {tolerance}, {max_iterations}")
    d = np.asarray(start, dtype=np.float64)
    for _ in range(max_iterations):
        d_next = operator(d)
        # By Banach's theorem, the error after this step is at most gamma / (1 - gamma) times the step.
        error = np.abs(d_next - d).max(initial=0.0) * gamma / (1 - gamma)
        d = d_next
        if error <= tolerance:
            return d
    raise PamdError(f"fixed_point: still {error:.3g} from the fixed point after {max_iterations} iterations")


def bisimulation(mdp: FiniteMDP, *, c_R: float = 1.0, tolerance: float = 1e-9) -> Array:
    """Return the bisimulation metric [S, S], with the max over actions."""
    return from_zero(bisimulation_operator(mdp, c_R), mdp, tolerance)


def policy_bisimulation(mdp: FiniteMDP, policy: Array, *, c_R: float = 1.0, tolerance: float = 1e-9) -> Array:
    """Return the on-policy bisimulation metric [S, S]."""
    return from_zero(policy_bisimulation_operator(mdp, policy, c_R), mdp, tolerance)


def mico(mdp: FiniteMDP, policy: Array, *, c_R: float = 1.0, tolerance: float = 1e-9) -> Array:
    """Return the MICo distance U^pi [S, S]. Its diagonal may be nonzero."""
    return from_zero(mico_operator(mdp, policy, c_R), mdp, tolerance)


def reduced(U: Array) -> Array:
    """Return the reduced form [S, S]: U(s, s') - (U(s, s) + U(s', s')) / 2."""
    self_distance = np.diagonal(U)
    return np.asarray(U - (self_distance[:, None] + self_distance) / 2)


def from_zero(operator: Operator, mdp: FiniteMDP, tolerance: float) -> Array:
    """Return the fixed point [S, S] of a gamma-contraction, iterated from 0."""
    return fixed_point(operator, np.zeros((mdp.n_states, mdp.n_states)), mdp.gamma, tolerance=tolerance)


def _all_wasserstein(transition: Array, d: Array) -> Array:
    """Return W_d [S, S] between all pairs of rows of transition [S, S]. d [S, S] must be symmetric."""
    W = np.empty_like(d)
    for s in range(len(d)):
        for t in range(s, len(d)):
            W[s, t] = W[t, s] = wasserstein(transition[s], transition[t], d)
    return W


def check_weight(c_R: float) -> float:
    """Return c_R. Raise ConfigError unless it is finite and at least 0."""
    if not isinstance(c_R, (int, float)) or not 0 <= c_R < float("inf"):
        raise ConfigError(f"c_R must be a finite number of at least 0, got {c_R!r}")
    return c_R


def check_square(d: Array, states: int) -> None:
    """Raise ShapeError unless d is [S, S]."""
    if d.shape != (states, states):
        raise ShapeError(f"a metric of this MDP must be {[states, states]}, got {list(d.shape)}")
