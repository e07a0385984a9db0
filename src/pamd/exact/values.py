"""Exact value and advantage targets [S, S], which compare states by the returns of a policy."""

from __future__ import annotations

import numpy as np

from pamd.exact.mdp import Array, FiniteMDP
from pamd.exact.metrics import Operator, check_square, check_weight, from_zero

__all__ = ["action_value", "advantage_gap", "expected_gap", "value_difference_operator", "value_gap"]


def value_difference_operator(mdp: FiniteMDP, policy: Array, c_R: float = 1.0) -> Operator:
    """Return the operator c_R (r^pi - r^pi') + gamma E[Delta(next, next')] on differences [S, S].

    It is the signed version of MICo's operator, and a gamma-contraction with fixed point c_R (V - V'). Therefore,
    c_R |V - V'| is at most MICo's distance.
    """
    transition, reward = mdp.under(policy)
    difference = check_weight(c_R) * (reward[:, None] - reward)

    def apply(delta: Array) -> Array:
        check_square(delta, mdp.n_states)
        return np.asarray(difference + mdp.gamma * transition @ delta @ transition.T)

    return apply


def value_gap(mdp: FiniteMDP, policy: Array, *, c_R: float = 1.0, tolerance: float = 1e-9) -> Array:
    """Return c_R |V(s) - V(s')| [S, S]."""
    return np.abs(from_zero(value_difference_operator(mdp, policy, c_R), mdp, tolerance))


def action_value(mdp: FiniteMDP, value: Array) -> Array:
    """Return Q [S, A] of a value function [S]: r + gamma E[V(next)]."""
    return np.asarray(mdp.reward + mdp.gamma * mdp.transition @ value)


def advantage_gap(mdp: FiniteMDP, policy: Array, *, c_R: float = 1.0, tolerance: float = 1e-9) -> Array:
    """Return c_R E|A(s, a) - A(s', a')| [S, S], with actions drawn from the policy in each state.

    The diagonal is positive if the policy is stochastic and its actions have different values.
    """
    difference = from_zero(value_difference_operator(mdp, policy), mdp, tolerance)
    # Advantages do not change if a constant is added to V, so the differences to one state can be used as V.
    value = difference[:, 0]
    Q = action_value(mdp, value)
    advantage = Q - (policy * Q).sum(1, keepdims=True)
    return check_weight(c_R) * expected_gap(advantage, policy)


def expected_gap(x: Array, policy: Array) -> Array:
    """Return E|x(s, a) - x(s', a')| [S, S] of x [S, A], with actions drawn independently from the policy [S, A]."""
    gaps = np.abs(x[:, None, :, None] - x[None, :, None, :])  # [S, S, A, A]
    return np.asarray(np.einsum("sa,tb,stab->st", policy, policy, gaps))
