"""Proven properties of exact metrics hold for the computed ones."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.exact.values import value

from pamd import exact
from pamd.errors import ConfigError, PamdError, ShapeError
from pamd.exact import FiniteMDP, bisimulation, fixed_point, mico, policy_bisimulation, reduced

OPERATORS = {
    "bisimulation": lambda mdp, policy, *c_R: exact.bisimulation_operator(mdp, *c_R),
    "policy_bisimulation": exact.policy_bisimulation_operator,
    "mico": exact.mico_operator,
}
METRICS = {
    "bisimulation": lambda mdp, policy, **options: bisimulation(mdp, **options),
    "policy_bisimulation": policy_bisimulation,
    "mico": mico,
}
each = pytest.mark.parametrize("name", METRICS)
seeds = given(seed=st.integers(0, 2**32 - 1))
few = settings(max_examples=5, deadline=None, derandomize=True)


def random_mdp(seed: int, states: int = 4) -> tuple[FiniteMDP, np.ndarray, np.random.Generator]:
    """A Garnet MDP, a stochastic policy that differs from state to state, and the generator for more."""
    rng = np.random.default_rng(seed)
    mdp = exact.garnet(states, 2, 3, rng=rng, gamma=rng.uniform(0.3, 0.8))
    return mdp, rng.dirichlet(np.ones(2), size=states), rng


def symmetric(rng: np.random.Generator) -> np.ndarray:
    d = rng.uniform(0, 10, (4, 4))
    return d + d.T


def two_states() -> FiniteMDP:
    """a stays for 1 or leaves for nothing; b is absorbing and worthless."""
    builder = exact.MDPBuilder(["a", "b"], ["stay", "leave"])
    return builder.add("a", "stay", {"a": 1}, reward=1).add("a", "leave", {"b": 1}).build(gamma=0.5)


@each
@few
@seeds
def test_operator_is_a_gamma_contraction_in_the_sup_norm(name, seed):
    mdp, policy, rng = random_mdp(seed)
    operator, d, e = OPERATORS[name](mdp, policy), symmetric(rng), symmetric(rng)
    assert np.abs(operator(d) - operator(e)).max() <= mdp.gamma * np.abs(d - e).max() + 1e-9
    # gamma and no smaller factor: a constant passes through every coupling.
    np.testing.assert_allclose(operator(d + 5), operator(d) + mdp.gamma * 5)


@each
@few
@seeds
def test_fixed_point_is_the_same_from_every_start(name, seed):
    mdp, policy, rng = random_mdp(seed)
    operator = OPERATORS[name](mdp, policy)
    found = fixed_point(operator, symmetric(rng), mdp.gamma)
    np.testing.assert_allclose(operator(found), found, atol=1e-8)
    np.testing.assert_allclose(fixed_point(operator, symmetric(rng), mdp.gamma), found, atol=1e-8)
    np.testing.assert_allclose(METRICS[name](mdp, policy), found, atol=1e-8)


@pytest.mark.parametrize("c_R", [1.0, 0.3])
def test_operators_are_the_papers(c_R):
    mdp, policy, rng = random_mdp(seed=3)
    d = symmetric(rng)
    applied = {name: operator(mdp, policy, c_R)(d) for name, operator in OPERATORS.items()}
    P, r = mdp.under(policy)
    for s, t in itertools.product(range(4), repeat=2):
        of_actions = [
            c_R * abs(mdp.reward[s, a] - mdp.reward[t, a])
            + mdp.gamma * exact.wasserstein(mdp.transition[s, a], mdp.transition[t, a], d)
            for a in range(2)
        ]
        gap = c_R * abs(r[s] - r[t])
        independent = sum(P[s, i] * P[t, j] * d[i, j] for i in range(4) for j in range(4))
        assert applied["bisimulation"][s, t] == pytest.approx(max(of_actions))
        assert applied["policy_bisimulation"][s, t] == pytest.approx(gap + mdp.gamma * exact.wasserstein(P[s], P[t], d))
        assert applied["mico"][s, t] == pytest.approx(gap + mdp.gamma * independent)


def test_metrics_of_two_states_by_hand():
    mdp, policy = two_states(), exact.uniform_policy(two_states())
    # Under "stay" d = 1 + d/2; on policy d = 1/2 + d/4; U(a,a) = (U(a,a)/4 + U(a,b)/2)/2.
    np.testing.assert_allclose(bisimulation(mdp), [[0, 2], [2, 0]], atol=1e-8)
    np.testing.assert_allclose(policy_bisimulation(mdp, policy), [[0, 2 / 3], [2 / 3, 0]], atol=1e-8)
    np.testing.assert_allclose(mico(mdp, policy), [[4 / 21, 2 / 3], [2 / 3, 0]], atol=1e-8)
    np.testing.assert_allclose(reduced(mico(mdp, policy)), [[0, 4 / 7], [4 / 7, 0]], atol=1e-8)


@few
@seeds
def test_metrics_bound_differences_of_value(seed):
    mdp, policy, _ = random_mdp(seed)
    V, V_star = value(mdp, policy), np.zeros(4)
    for _ in range(200):
        V_star = (mdp.reward + mdp.gamma * mdp.transition @ V_star).max(1)
    assert (np.abs(V[:, None] - V) <= policy_bisimulation(mdp, policy) + 1e-8).all()
    assert (np.abs(V[:, None] - V) <= mico(mdp, policy) + 1e-8).all()
    assert (np.abs(V_star[:, None] - V_star) <= bisimulation(mdp) + 1e-8).all()


@few
@seeds
def test_metrics_bound_each_other(seed):
    mdp, policy, _ = random_mdp(seed)
    # The independent coupling is one of those that W minimizes over.
    assert (policy_bisimulation(mdp, policy) <= mico(mdp, policy) + 1e-8).all()
    # W is convex, so a policy that is the same in all states averages what bisimulation takes the maximum of.
    assert (policy_bisimulation(mdp, exact.uniform_policy(mdp)) <= bisimulation(mdp) + 1e-8).all()


@each
def test_metric_is_symmetric_and_obeys_the_triangle_inequality(name):
    mdp, policy, _ = random_mdp(seed=0, states=5)
    d = METRICS[name](mdp, policy)
    np.testing.assert_allclose(d, d.T, atol=1e-12)
    assert (d >= 0).all()
    assert (d[:, None, :] <= d[:, :, None] + d[None] + 1e-8).all()  # d(x,z) <= d(x,y) + d(y,z)


@each
def test_duplicated_states_cannot_be_told_apart(name):
    mdp, policy, _ = random_mdp(seed=1, states=3)
    d = METRICS[name](exact.duplicated(mdp), np.tile(policy, (2, 1)))
    np.testing.assert_allclose(d, np.tile(METRICS[name](mdp, policy), (2, 2)), atol=1e-8)
    to_its_copy = (reduced(d) if name == "mico" else d)[np.arange(3), np.arange(3) + 3]
    np.testing.assert_allclose(to_its_copy, 0, atol=1e-8)
    assert d[0, 1] > 0.01


def test_mico_self_distance_comes_from_chance_alone():
    mdp, policy, rng = random_mdp(seed=2)
    assert (np.diagonal(mico(mdp, policy)) > 0.01).all()
    certain, chosen = exact.garnet(4, 2, 1, rng=rng), np.eye(2)[rng.integers(0, 2, 4)]
    np.testing.assert_allclose(np.diagonal(mico(certain, chosen)), 0, atol=1e-12)
    assert mico(certain, chosen).max() > 0.01


def test_reduced_form_is_its_definition():
    U = np.array([[2.0, 7, 5], [7, 4, 9], [5, 9, 0]])
    np.testing.assert_array_equal(reduced(U), [[0, 4, 4], [4, 0, 7], [4, 7, 0]])


@few
@seeds
def test_mico_is_the_solution_of_its_linear_system(seed):
    mdp, policy, _ = random_mdp(seed)
    P, r = mdp.under(policy)
    U = np.linalg.solve(np.eye(16) - mdp.gamma * np.kron(P, P), np.abs(r[:, None] - r).ravel())
    np.testing.assert_allclose(mico(mdp, policy), U.reshape(4, 4), atol=1e-8)


@each
def test_metric_scales_with_reward_and_with_its_weight(name):
    mdp, policy, _ = random_mdp(seed=4)
    d = METRICS[name](mdp, policy)
    scaled = FiniteMDP(mdp.transition, 1 - 3 * mdp.reward, mdp.gamma)
    np.testing.assert_allclose(METRICS[name](scaled, policy), 3 * d, atol=1e-7)
    np.testing.assert_allclose(METRICS[name](mdp, policy, c_R=0.25), d / 4, atol=1e-8)


@each
def test_c_R_of_one_minus_gamma_keeps_the_metric_within_the_reward_gap(name):
    mdp, policy, _ = random_mdp(seed=5)
    largest_gap = np.ptp(mdp.reward, axis=0).max() if name == "bisimulation" else np.ptp(mdp.under(policy)[1])
    assert METRICS[name](mdp, policy, c_R=1 - mdp.gamma).max() <= largest_gap + 1e-8
    assert METRICS[name](mdp, policy).max() > largest_gap  # so it is the weight that does it


@each
def test_without_a_future_only_rewards_differ(name):
    mdp = FiniteMDP(np.ones((3, 1, 3)) / 3, [[0], [2], [5]], gamma=0)
    np.testing.assert_array_equal(METRICS[name](mdp, np.ones((3, 1))), [[0, 2, 5], [2, 0, 3], [5, 3, 0]])


@each
def test_metric_of_another_mdp_is_refused(name):
    operator = OPERATORS[name](two_states(), exact.uniform_policy(two_states()))
    with pytest.raises(ShapeError, match=r"must be \[2, 2\], got \[3, 3\]"):
        operator(np.zeros((3, 3)))


def test_fixed_point_is_within_tolerance_or_says_that_it_is_not():
    towards_two, zero = (lambda d: d / 2 + 1), np.zeros((1, 1))
    assert np.abs(fixed_point(towards_two, zero, 0.5, tolerance=1e-3) - 2).max() <= 1e-3
    with pytest.raises(PamdError, match="after 3 iterations"):
        fixed_point(towards_two, zero, 0.5, max_iterations=3)
    with pytest.raises(ConfigError, match=r"gamma must lie in \[0, 1\), got 1"):
        fixed_point(towards_two, zero, 1)
    with pytest.raises(ConfigError, match="must be above 0: 0, 100000"):
        fixed_point(towards_two, zero, 0.5, tolerance=0)
    with pytest.raises(ConfigError, match="max_iterations must be above 0"):
        fixed_point(towards_two, zero, 0.5, max_iterations=0)


@each
@pytest.mark.parametrize("weight", [-1.0, float("nan"), "1-gamma"])
def test_c_R_is_a_number_of_at_least_zero(name, weight):
    with pytest.raises(ConfigError, match="c_R"):
        OPERATORS[name](two_states(), exact.uniform_policy(two_states()), weight)
