"""Exact behavioral metrics of finite MDPs, as fixed points [S, S] of their operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from pamd.errors import ConfigError, PamdError, ShapeError, UnknownNameError, install_command
from pamd.exact.mdp import Array, FiniteMDP, check_distributions, uniform_policy

_Operator = Callable[[Array], Array]


# -- Bisimulation and MICo --------------------------------------------------------------------------------------------


def bisimulation_operator(mdp: FiniteMDP, c_R: float = 1.0) -> _Operator:
    """Return eq:bisim_operator: max over actions of c_R |r - r'| + gamma W_d(P, P'), on symmetric d [S, S]."""
    gap = _check_weight(c_R) * np.abs(mdp.reward[:, None] - mdp.reward[None])  # [S, S, A]

    def apply(d: Array) -> Array:
        _check_square(d, mdp.n_states)
        per_action = [gap[..., a] + mdp.gamma * _all_wasserstein(mdp.transition[:, a], d) for a in range(mdp.n_actions)]
        return np.asarray(np.max(per_action, axis=0))

    return apply


def policy_bisimulation_operator(mdp: FiniteMDP, policy: Array, c_R: float = 1.0) -> _Operator:
    """Return DBC's on-policy version of the operator: c_R |r^pi - r^pi'| + gamma W_d(P^pi, P^pi')."""
    transition, reward = mdp.under(policy)
    gap = _check_weight(c_R) * np.abs(reward[:, None] - reward)
    return _coupled(mdp, gap, transition)


def mico_operator(mdp: FiniteMDP, policy: Array, c_R: float = 1.0) -> _Operator:
    """Return eq:mico_operator: c_R |r^pi - r^pi'| + gamma E[U(next, next')], with independent next states."""
    transition, reward = mdp.under(policy)
    gap = _check_weight(c_R) * np.abs(reward[:, None] - reward)
    return _averaged(mdp, gap, transition)


def fixed_point(
    operator: _Operator, start: Array, gamma: float, *, tolerance: float = 1e-9, max_iterations: int = 100_000
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
    return _from_zero(bisimulation_operator(mdp, c_R), mdp, tolerance)


def policy_bisimulation(mdp: FiniteMDP, policy: Array, *, c_R: float = 1.0, tolerance: float = 1e-9) -> Array:
    """Return the on-policy bisimulation metric [S, S]."""
    return _from_zero(policy_bisimulation_operator(mdp, policy, c_R), mdp, tolerance)


def mico(mdp: FiniteMDP, policy: Array, *, c_R: float = 1.0, tolerance: float = 1e-9) -> Array:
    """Return the MICo distance U^pi [S, S]. Its diagonal may be nonzero."""
    return _from_zero(mico_operator(mdp, policy, c_R), mdp, tolerance)


def reduced(U: Array) -> Array:
    """Return the reduced form [S, S]: U(s, s') - (U(s, s) + U(s', s')) / 2."""
    self_distance = np.diagonal(U)
    return np.asarray(U - (self_distance[:, None] + self_distance) / 2)


def _averaged(mdp: FiniteMDP, near: Array, transition: Array) -> _Operator:
    """Return the operator near + gamma E[d(next, next')], with independent next states."""

    def apply(d: Array) -> Array:
        _check_square(d, mdp.n_states)
        return np.asarray(near + mdp.gamma * transition @ d @ transition.T)

    return apply


def _coupled(mdp: FiniteMDP, near: Array, transition: Array) -> _Operator:
    """Return the operator near + gamma W_d(P, P'), on symmetric d [S, S]."""

    def apply(d: Array) -> Array:
        _check_square(d, mdp.n_states)
        return near + mdp.gamma * _all_wasserstein(transition, d)

    return apply


def _from_zero(operator: _Operator, mdp: FiniteMDP, tolerance: float) -> Array:
    """Return the fixed point [S, S] of a gamma-contraction, iterated from 0."""
    return fixed_point(operator, np.zeros((mdp.n_states, mdp.n_states)), mdp.gamma, tolerance=tolerance)


# -- Values and advantages, which compare states by the returns of a policy -------------------------------------------


def value_difference_operator(mdp: FiniteMDP, policy: Array, c_R: float = 1.0) -> _Operator:
    """Return the operator c_R (r^pi - r^pi') + gamma E[Delta(next, next')] on differences [S, S].

    It is the signed version of MICo's operator, and a gamma-contraction with fixed point c_R (V - V'). Therefore,
    c_R |V - V'| is at most MICo's distance.
    """
    transition, reward = mdp.under(policy)
    difference = _check_weight(c_R) * (reward[:, None] - reward)
    return _averaged(mdp, difference, transition)


def value_gap(mdp: FiniteMDP, policy: Array, *, c_R: float = 1.0, tolerance: float = 1e-9) -> Array:
    """Return c_R |V(s) - V(s')| [S, S]."""
    return np.abs(_from_zero(value_difference_operator(mdp, policy, c_R), mdp, tolerance))


def action_value(mdp: FiniteMDP, value: Array) -> Array:
    """Return Q [S, A] of a value function [S]: r + gamma E[V(next)]."""
    return np.asarray(mdp.reward + mdp.gamma * mdp.transition @ value)


def advantage_gap(mdp: FiniteMDP, policy: Array, *, c_R: float = 1.0, tolerance: float = 1e-9) -> Array:
    """Return c_R E|A(s, a) - A(s', a')| [S, S], with actions drawn from the policy in each state.

    The diagonal is positive if the policy is stochastic and its actions have different values.
    """
    difference = _from_zero(value_difference_operator(mdp, policy), mdp, tolerance)
    # Advantages do not change if a constant is added to V, so the differences to one state can be used as V.
    value = difference[:, 0]
    Q = action_value(mdp, value)
    advantage = Q - (policy * Q).sum(1, keepdims=True)
    return _check_weight(c_R) * expected_gap(advantage, policy)


def expected_gap(x: Array, policy: Array) -> Array:
    """Return E|x(s, a) - x(s', a')| [S, S] of x [S, A], with actions drawn independently from the policy [S, A]."""
    gaps = np.abs(x[:, None, :, None] - x[None, :, None, :])  # [S, S, A, A]
    return np.asarray(np.einsum("sa,tb,stab->st", policy, policy, gaps))


# -- Exact versions of the operators n-step, state-action, psm and kernel ---------------------------------------------


def n_step_operator(mdp: FiniteMDP, policy: Array, n: int, c_R: float = 1.0) -> _Operator:
    """Return the operator sum over k < n of gamma^k c_R E|r_k - r'_k| + gamma^n E[d(s_n, s'_n)].

    The two trajectories are independent. The operator is a contraction with factor gamma^n, and its fixed point does
    not depend on n. It uses the mean of |r - r'| over sampled rewards instead of MICo's |r^pi - r^pi'|. The two are
    equal if the reward depends only on the state.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ConfigError(f"n_step_operator: n must be a whole number of at least 1, got {n!r}")
    transition, _ = mdp.under(policy)
    one_step = _averaged(mdp, _check_weight(c_R) * expected_gap(mdp.reward, policy), transition)

    def apply(d: Array) -> Array:
        for _ in range(n):
            d = one_step(d)
        return d

    return apply


def n_step(mdp: FiniteMDP, policy: Array, *, n: int = 1, c_R: float = 1.0, tolerance: float = 1e-9) -> Array:
    """Return the fixed point [S, S] of `n_step_operator`. Its diagonal may be nonzero."""
    return _from_zero(n_step_operator(mdp, policy, n, c_R), mdp, tolerance)


def state_action_operator(mdp: FiniteMDP, policy: Array, c_R: float = 1.0) -> _Operator:
    """Return the operator c_R max over actions of |r(s, a) - r(s', a)| + gamma E[d(next, next')].

    The next states are independent and on-policy. The operator is a gamma-contraction.
    """
    transition, _ = mdp.under(policy)
    gap = _check_weight(c_R) * np.abs(mdp.reward[:, None] - mdp.reward[None]).max(-1)
    return _averaged(mdp, gap, transition)


def state_action(mdp: FiniteMDP, policy: Array, *, c_R: float = 1.0, tolerance: float = 1e-9) -> Array:
    """Return the fixed point [S, S] of `state_action_operator`. Its diagonal may be nonzero."""
    return _from_zero(state_action_operator(mdp, policy, c_R), mdp, tolerance)


def policy_similarity_operator(
    mdp: FiniteMDP, policy: Array, c_R: float = 1.0, coupling: Literal["independent", "wasserstein"] = "independent"
) -> _Operator:
    """Return PSM's operator c_R TV(pi, pi') + gamma d(next, next'), with the total variation of the policy's actions.

    The next states are on-policy. They are independent, as in operator "psm", or coupled by W_d, as published. The two
    are equal if policy and transitions are deterministic. The operator is a gamma-contraction.
    """
    transition, _ = mdp.under(policy)
    gap = _check_weight(c_R) * np.abs(policy[:, None] - policy).sum(-1) / 2
    if coupling not in ("independent", "wasserstein"):
        raise UnknownNameError("coupling", coupling, ("independent", "wasserstein"))
    return (_coupled if coupling == "wasserstein" else _averaged)(mdp, gap, transition)


def policy_similarity(
    mdp: FiniteMDP,
    policy: Array,
    *,
    c_R: float = 1.0,
    coupling: Literal["independent", "wasserstein"] = "independent",
    tolerance: float = 1e-9,
) -> Array:
    """Return the fixed point [S, S] of `policy_similarity_operator`. It is 0 if the policy is the same everywhere."""
    return _from_zero(policy_similarity_operator(mdp, policy, c_R, coupling), mdp, tolerance)


def kernel_operator(mdp: FiniteMDP, policy: Array, c_R: float = 1.0) -> _Operator:
    """Return the operator 1 - c_R |r^pi - r^pi'| + gamma E[k(next, next')] on kernels k [S, S].

    The next states are independent. The operator is a gamma-contraction. The published kernel uses
    c_R = 1 / (r_max - r_min), which keeps it positive definite.
    """
    transition, reward = mdp.under(policy)
    similarity = 1 - _check_weight(c_R) * np.abs(reward[:, None] - reward)
    return _averaged(mdp, similarity, transition)


def kernel(mdp: FiniteMDP, policy: Array, *, c_R: float = 1.0, tolerance: float = 1e-9) -> Array:
    """Return the kernel k [S, S], the fixed point of `kernel_operator`."""
    return _from_zero(kernel_operator(mdp, policy, c_R), mdp, tolerance)


def kernel_distance(k: Array) -> Array:
    """Return d^2 = k(s, s) + k(s', s') - 2 k(s, s') [S, S] of a kernel k [S, S]: twice the reduced MICo distance."""
    return -2 * reduced(k)


# -- Optimal transport and checks -------------------------------------------------------------------------------------


def wasserstein(p: Array, q: Array, cost: Array) -> float:
    """Return the minimum expected cost [S, T] over couplings of p [S] and q [T]."""
    if cost.shape != (len(p), len(q)):
        raise ShapeError(f"wasserstein: cost must be {[len(p), len(q)]}, got {list(cost.shape)}")
    check_distributions(np.stack([p]), "wasserstein: p")
    check_distributions(np.stack([q]), "wasserstein: q")
    rows, columns = np.flatnonzero(p), np.flatnonzero(q)
    if len(rows) == 1 or len(columns) == 1:  # Only one coupling exists.
        return float(p[rows] @ cost[np.ix_(rows, columns)] @ q[columns])
    try:
        import ot  # POT is an optional dependency and slow to import.
    except ImportError:
        raise ImportError(f"exact Wasserstein distances require POT: {install_command('exact')}") from None
    a, b = p[rows] / p[rows].sum(), q[columns] / q[columns].sum()  # POT requires exactly equal mass.
    return float(ot.emd2(a, b, np.ascontiguousarray(cost[np.ix_(rows, columns)])))


def _all_wasserstein(transition: Array, d: Array) -> Array:
    """Return W_d [S, S] between all pairs of rows of transition [S, S]. d [S, S] must be symmetric."""
    W = np.empty_like(d)
    for s in range(len(d)):
        for t in range(s, len(d)):
            W[s, t] = W[t, s] = wasserstein(transition[s], transition[t], d)
    return W


def _check_weight(c_R: float) -> float:
    """Return c_R. Raise ConfigError unless it is finite and at least 0."""
    if not isinstance(c_R, (int, float)) or not 0 <= c_R < float("inf"):
        raise ConfigError(f"c_R must be a finite number of at least 0, got {c_R!r}")
    return c_R


def _check_square(d: Array, states: int) -> None:
    """Raise ShapeError unless d is [S, S]."""
    if d.shape != (states, states):
        raise ShapeError(f"a metric of this MDP must be {[states, states]}, got {list(d.shape)}")


# -- By name ----------------------------------------------------------------------------------------------------------


METRICS: dict[str, Callable[[FiniteMDP, Array, float], Array]] = {
    "bisimulation": lambda mdp, _, tolerance: bisimulation(mdp, tolerance=tolerance),
    "policy-bisimulation": lambda mdp, policy, tolerance: policy_bisimulation(mdp, policy, tolerance=tolerance),
    "mico": lambda mdp, policy, tolerance: mico(mdp, policy, tolerance=tolerance),
    "value": lambda mdp, policy, tolerance: value_gap(mdp, policy, tolerance=tolerance),
    "advantage": lambda mdp, policy, tolerance: advantage_gap(mdp, policy, tolerance=tolerance),
    "n-step": lambda mdp, policy, tolerance: n_step(mdp, policy, tolerance=tolerance),
    "state-action": lambda mdp, policy, tolerance: state_action(mdp, policy, tolerance=tolerance),
    "psm": lambda mdp, policy, tolerance: policy_similarity(mdp, policy, tolerance=tolerance),
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
