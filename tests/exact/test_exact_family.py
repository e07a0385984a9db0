"""The exact counterparts of operators from `value` to `kernel`, and the counter-example."""

import numpy as np
import pytest
from tests.exact.values import value

from pamd import exact
from pamd.errors import ConfigError, ShapeError, UnknownNameError

GRID = exact.grid_world("...\n.#.\n..G", slip=0.2, gamma=0.8)
CONTRACTIONS = {
    "value": (exact.value_difference_operator, 1),
    "1-step": (lambda mdp, policy, c_R=1.0: exact.n_step_operator(mdp, policy, 1, c_R), 1),
    "3-step": (lambda mdp, policy, c_R=1.0: exact.n_step_operator(mdp, policy, 3, c_R), 3),
    "state-action": (exact.state_action_operator, 1),
    "psm": (exact.policy_similarity_operator, 1),
    "kernel": (exact.kernel_operator, 1),
}
each = pytest.mark.parametrize("name", CONTRACTIONS)


def garnet(seed: int = 0) -> tuple[exact.FiniteMDP, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return exact.garnet(5, 3, 3, rng=rng, gamma=0.7), rng.dirichlet(np.ones(3), size=5), rng


@each
@pytest.mark.parametrize("seed", range(3))
def test_operators_contract_by_gamma_to_the_number_of_steps(name, seed):
    mdp, policy, rng = garnet(seed)
    make, steps = CONTRACTIONS[name]
    operator, d, e = make(mdp, policy), rng.normal(size=(5, 5)), rng.normal(size=(5, 5))
    factor = mdp.gamma**steps
    assert np.abs(operator(d) - operator(e)).max() <= factor * np.abs(d - e).max() + 1e-12
    np.testing.assert_allclose(operator(d + 5), operator(d) + factor * 5)  # and no smaller factor holds
    with pytest.raises(ShapeError, match=r"must be \[5, 5\]"):
        operator(np.zeros((2, 2)))
    with pytest.raises(ConfigError, match="c_R"):
        make(mdp, policy, -1.0)


@pytest.mark.parametrize("mdp", [garnet()[0], GRID], ids=["garnet", "grid"])
def test_value_gap_is_that_of_the_linear_solve_and_below_mico(mdp):
    policy = exact.uniform_policy(mdp)
    V = value(mdp, policy)
    np.testing.assert_allclose(exact.value_gap(mdp, policy), np.abs(V[:, None] - V), atol=1e-8)
    np.testing.assert_allclose(exact.value_gap(mdp, policy, c_R=0.5), np.abs(V[:, None] - V) / 2, atol=1e-8)
    assert (exact.value_gap(mdp, policy) <= exact.mico(mdp, policy) + 1e-8).all()


def test_advantages_average_to_zero_and_make_the_gap():
    mdp, policy, _ = garnet()
    V = value(mdp, policy)
    A = exact.action_value(mdp, V) - V[:, None]
    np.testing.assert_allclose((policy * A).sum(1), 0, atol=1e-12)
    expected = sum(policy[1, a] * policy[3, b] * abs(A[1, a] - A[3, b]) for a in range(3) for b in range(3))
    assert exact.advantage_gap(mdp, policy)[1, 3] == pytest.approx(expected, abs=1e-8)
    greedy = np.eye(3)[A.argmax(1)]
    np.testing.assert_allclose(np.diagonal(exact.advantage_gap(mdp, greedy)), 0, atol=1e-8)


@pytest.mark.parametrize("n", [2, 5])
def test_the_fixed_point_does_not_depend_on_n(n):
    mdp, policy, _ = garnet()
    np.testing.assert_allclose(exact.n_step(mdp, policy, n=n), exact.n_step(mdp, policy), atol=1e-7)
    # Without an action's part in the reward it is MICo's distance.
    by_state = exact.FiniteMDP(mdp.transition, np.repeat(mdp.reward[:, :1], 3, axis=1), mdp.gamma)
    np.testing.assert_allclose(exact.n_step(by_state, policy, n=n), exact.mico(by_state, policy), atol=1e-7)


def test_state_action_is_at_least_mico():
    mdp, policy, _ = garnet()
    shared = np.tile(policy[0], (5, 1))  # the same mixture in every state: a mean gap is at most the largest one
    assert (exact.state_action(mdp, shared) >= exact.mico(mdp, shared) - 1e-8).all()
    one_action = exact.FiniteMDP(mdp.transition[:, :1], mdp.reward[:, :1], mdp.gamma)
    np.testing.assert_allclose(exact.state_action(one_action, np.ones((5, 1))), exact.mico(one_action, np.ones((5, 1))))


def test_policy_similarity_ignores_rewards_and_reads_the_policy():
    mdp, policy, _ = garnet()
    D = exact.policy_similarity(mdp, policy)
    richer = exact.FiniteMDP(mdp.transition, 5 * mdp.reward, mdp.gamma)
    np.testing.assert_array_equal(exact.policy_similarity(richer, policy), D)
    np.testing.assert_array_equal(exact.policy_similarity(mdp, exact.uniform_policy(mdp)), 0)
    total_variation = max(policy[0] - policy[1], key=abs)  # three actions: one gain or one loss is all of it
    first_step = exact.policy_similarity_operator(mdp, policy)(np.zeros((5, 5)))
    assert first_step[0, 1] == pytest.approx(abs(total_variation))
    coupled = exact.policy_similarity(mdp, policy, coupling="wasserstein", tolerance=1e-6)
    np.testing.assert_allclose(np.diagonal(coupled), 0, atol=1e-6)
    with pytest.raises(UnknownNameError, match="Did you mean 'independent'"):
        exact.policy_similarity(mdp, policy, coupling="independant")


def test_kernel_is_positive_definite_and_its_distance_is_the_reduced_mico():
    mdp, policy, _ = garnet()
    c_R = 1 / np.ptp(mdp.under(policy)[1])
    k = exact.kernel(mdp, policy, c_R=c_R)
    assert np.linalg.eigvalsh((k + k.T) / 2).min() > -1e-9
    squared = exact.kernel_distance(k)
    np.testing.assert_allclose(squared, 2 * exact.reduced(exact.mico(mdp, policy, c_R=c_R)), atol=1e-6)
    np.testing.assert_allclose(np.diagonal(squared), 0, atol=1e-12)
    assert k[0, 0] == pytest.approx(exact.kernel_operator(mdp, policy, c_R)(k)[0, 0], abs=1e-7)


def test_every_metric_has_a_name():
    mdp, policy, _ = garnet()
    for name in exact.METRICS:
        D = exact.metric(name, mdp, policy, tolerance=1e-4)
        assert D.shape == (5, 5)
        assert D.min() >= 0
        np.testing.assert_allclose(D, D.T, atol=1e-3)
    squared = exact.kernel_distance(exact.kernel(mdp, policy))
    np.testing.assert_allclose(exact.metric("kernel", mdp, policy) ** 2, squared, atol=1e-12)
    np.testing.assert_array_equal(exact.metric("mico", mdp), exact.mico(mdp, exact.uniform_policy(mdp)))
    with pytest.raises(UnknownNameError, match="Did you mean 'mico'"):
        exact.metric("mic", mdp)


def test_counter_example_on_policy_metrics_merge_states_that_must_differ():
    mdp = exact.counter_example()
    even, uneven = 0, 1
    merged = {name for name in exact.METRICS if exact.pseudometric(exact.metric(name, mdp))[even, uneven] < 1e-9}
    assert merged == {"policy-bisimulation", "mico", "value", "psm", "kernel"}
    assert exact.metric("bisimulation", mdp)[even, uneven] == pytest.approx(0.5)
    assert exact.metric("state-action", mdp)[even, uneven] == pytest.approx(0.5)
    # The best policy earns twice as much in one of them.
    best = np.array([[1.0, 0], [1, 0], [1, 0]])
    np.testing.assert_allclose(value(mdp, best), [0.5, 1, 0])
