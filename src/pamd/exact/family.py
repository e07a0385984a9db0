"""Exact versions of the operators `n-step`, `state-action` and `kernel`, and all exact metrics by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pamd.config import check_whole
from pamd.errors import UnknownNameError
from pamd.exact.mdp import Array, FiniteMDP, uniform_policy
from pamd.exact.metrics import (
    Operator,
    bisimulation,
    check_square,
    check_weight,
    from_zero,
    mico,
    policy_bisimulation,
    reduced,
)
from pamd.exact.values import advantage_gap, expected_gap, value_gap

__all__ = [
    "METRICS",
    "kernel",
    "kernel_distance",
    "kernel_operator",
    "metric",
    "n_step",
    "n_step_operator",
    "state_action",
    "state_action_operator",
]


def n_step_operator(mdp: FiniteMDP, policy: Array, n: int, c_R: float = 1.0) -> Operator:
    """Return the operator sum over k < n of gamma^k c_R E|r_k - r'_k| + gamma^n E[d(s_n, s'_n)].

    The two trajectories are independent. The operator is a contraction with factor gamma^n, and its fixed point does
    not depend on n. It uses the mean of |r - r'| over sampled rewards instead of MICo's |r^pi - r^pi'|. The two are
    equal if the reward depends only on the state.
    """
    check_whole("n_step_operator", "n", n, 1)
    transition, _ = mdp.under(policy)
    gap = check_weight(c_R) * expected_gap(mdp.reward, policy)

    def apply(d: Array) -> Array:
        check_square(d, mdp.n_states)
        for _ in range(n):
            d = gap + mdp.gamma * transition @ d @ transition.T
        return d

    return apply


def n_step(mdp: FiniteMDP, policy: Array, *, n: int = 1, c_R: float = 1.0, tolerance: float = 1e-9) -> Array:
    """Return the fixed point [S, S] of `n_step_operator`. Its diagonal may be nonzero."""
    return from_zero(n_step_operator(mdp, policy, n, c_R), mdp, tolerance)


def state_action_operator(mdp: FiniteMDP, policy: Array, c_R: float = 1.0) -> Operator:
    """Return the operator c_R max over actions of |r(s, a) - r(s', a)| + gamma E[d(next, next')].

    The next states are independent and on-policy. The operator is a gamma-contraction.
    """
    transition, _ = mdp.under(policy)
    gap = check_weight(c_R) * np.abs(mdp.reward[:, None] - mdp.reward[None]).max(-1)

    def apply(d: Array) -> Array:
        check_square(d, mdp.n_states)
        return np.asarray(gap + mdp.gamma * transition @ d @ transition.T)

    return apply


def state_action(mdp: FiniteMDP, policy: Array, *, c_R: float = 1.0, tolerance: float = 1e-9) -> Array:
    """Return the fixed point [S, S] of `state_action_operator`. Its diagonal may be nonzero."""
    return from_zero(state_action_operator(mdp, policy, c_R), mdp, tolerance)


def kernel_operator(mdp: FiniteMDP, policy: Array, c_R: float = 1.0) -> Operator:
    """Return the operator 1 - c_R |r^pi - r^pi'| + gamma E[k(next, next')] on kernels k [S, S].

    The next states are independent. The operator is a gamma-contraction. The published kernel uses
    c_R = 1 / (r_max - r_min), which keeps it positive definite.
    """
    transition, reward = mdp.under(policy)
    similarity = 1 - check_weight(c_R) * np.abs(reward[:, None] - reward)

    def apply(k: Array) -> Array:
        check_square(k, mdp.n_states)
        return similarity + mdp.gamma * transition @ k @ transition.T

    return apply


def kernel(mdp: FiniteMDP, policy: Array, *, c_R: float = 1.0, tolerance: float = 1e-9) -> Array:
    """Return the kernel k [S, S], the fixed point of `kernel_operator`."""
    return from_zero(kernel_operator(mdp, policy, c_R), mdp, tolerance)


def kernel_distance(k: Array) -> Array:
    """Return d^2 = k(s, s) + k(s', s') - 2 k(s, s') [S, S] of a kernel k [S, S]: twice the reduced MICo distance."""
    return -2 * reduced(k)


METRICS: dict[str, Callable[[FiniteMDP, Array, float], Array]] = {
    "bisimulation": lambda mdp, _, tolerance: bisimulation(mdp, tolerance=tolerance),
    "policy-bisimulation": lambda mdp, policy, tolerance: policy_bisimulation(mdp, policy, tolerance=tolerance),
    "mico": lambda mdp, policy, tolerance: mico(mdp, policy, tolerance=tolerance),
    "value": lambda mdp, policy, tolerance: value_gap(mdp, policy, tolerance=tolerance),
    "advantage": lambda mdp, policy, tolerance: advantage_gap(mdp, policy, tolerance=tolerance),
    "n-step": lambda mdp, policy, tolerance: n_step(mdp, policy, tolerance=tolerance),
    "state-action": lambda mdp, policy, tolerance: state_action(mdp, policy, tolerance=tolerance),
    "kernel": lambda mdp, policy, tolerance: np.sqrt(
        np.maximum(kernel_distance(kernel(mdp, policy, tolerance=tolerance)), 0)
    ),
}
"""Exact metrics by name: functions of (mdp, policy, tolerance), c_R = 1. "kernel" is the root of `kernel_distance`."""


def metric(name: str, mdp: FiniteMDP, policy: Array | None = None, *, tolerance: float = 1e-9) -> Array:
    """Return the exact metric `name` [S, S] at c_R = 1. The default policy is uniform."""
    if name not in METRICS:
        raise UnknownNameError("exact metric", name, METRICS)
    return METRICS[name](mdp, uniform_policy(mdp) if policy is None else policy, tolerance)
