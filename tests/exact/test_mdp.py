"""A finite MDP is validated on construction, with specific errors."""

import numpy as np
import pytest
from tests.exact.values import value

from pamd.errors import MDPError, ShapeError
from pamd.exact import FiniteMDP, uniform_policy


def two_states() -> FiniteMDP:
    """Action 0 stays, action 1 goes to state 1."""
    transition = [[[1, 0], [0, 1]], [[0, 1], [0, 1]]]
    return FiniteMDP(transition, [[1, 3], [0, 2]], gamma=0.5)


def test_policy_averages_rewards_and_transitions():
    transition, reward = two_states().under([[0.25, 0.75], [1, 0]])
    np.testing.assert_allclose(transition, [[0.25, 0.75], [0, 1]])
    np.testing.assert_allclose(reward, [2.5, 0])


def test_value_by_hand():
    # V(1) = 2 + V(1)/2 = 4 and V(0) = 2 + (V(0)/2 + V(1)/2)/2 under the policies below.
    np.testing.assert_allclose(value(two_states(), [[0.5, 0.5], [0, 1]]), [4, 4])
    np.testing.assert_allclose(value(two_states(), [[0, 1], [0, 1]]), [5, 4])
    np.testing.assert_allclose(value(two_states(), [[1, 0], [1, 0]]), [2, 0])


def test_uniform_policy_gives_every_action_the_same_probability():
    mdp = FiniteMDP(np.ones((1, 4, 1)), np.zeros((1, 4)))
    np.testing.assert_array_equal(uniform_policy(mdp), [[0.25] * 4])


def test_discount_of_zero_is_allowed_and_looks_one_reward_ahead():
    mdp = FiniteMDP(np.eye(2)[:, None], [[1], [2]], gamma=0)
    np.testing.assert_array_equal(value(mdp, uniform_policy(mdp)), [1, 2])


def test_states_are_numbered_unless_named():
    transition, reward = np.eye(2)[:, None], np.zeros((2, 1))
    assert FiniteMDP(transition, reward).states == ("0", "1")
    assert FiniteMDP(transition, reward, states=("left", "right")).states == ("left", "right")


def test_a_checked_mdp_cannot_be_changed_afterwards():
    transition = np.eye(2)[:, None].copy()
    mdp = FiniteMDP(transition, np.zeros((2, 1)))
    transition[0, 0, 0] = 7
    assert mdp.transition[0, 0, 0] == 1
    for array in (mdp.transition, mdp.reward):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ([0.5, 0.4], r"sum to one, got \[0.5 0.4\] \(sum 0.9\)"),
        ([0.6, 0.5], "sum to one"),
        ([1.5, -0.5], r"nonnegative .* got \[ 1.5 -0.5\]"),
        ([np.nan, 1.0], "got .*nan"),
        ([np.inf, 0.0], "got .*inf"),
    ],
)
def test_transition_rows_must_be_distributions(row, says):
    transition = np.tile(np.eye(2)[:, None], (1, 3, 1))
    transition[1, 2] = row
    with pytest.raises(MDPError, match=says) as caught:
        FiniteMDP(transition, np.zeros((2, 3)))
    assert "FiniteMDP.transition: the row of state 1, action 2" in str(caught.value)


@pytest.mark.parametrize("gamma", [1, 1.5, -0.1, np.nan])
def test_discount_outside_its_range(gamma):
    with pytest.raises(MDPError, match=rf"gamma must lie in \[0, 1\), got {gamma}"):
        FiniteMDP(np.ones((1, 1, 1)), np.zeros((1, 1)), gamma=gamma)


@pytest.mark.parametrize("reward", [np.nan, np.inf])
def test_reward_must_be_finite(reward):
    with pytest.raises(MDPError, match="reward must be finite"):
        FiniteMDP(np.ones((1, 1, 1)), [[reward]])


@pytest.mark.parametrize(
    ("transition", "reward", "states", "says"),
    [
        (np.eye(2), np.zeros((2, 1)), (), r"transition must be \[S, A, S\], got \[2, 2\]"),
        (np.ones((2, 1, 3)) / 3, np.zeros((2, 1)), (), r"transition must be \[S, A, S\], got \[2, 1, 3\]"),
        (np.eye(2)[:, None], np.zeros(2), (), r"reward must be \[2, 1\], got \[2\]"),
        (np.eye(2)[:, None], np.zeros((2, 1)), ("only",), "must name 2 states, got 1"),
    ],
)
def test_shapes_must_agree(transition, reward, states, says):
    with pytest.raises(ShapeError, match=says):
        FiniteMDP(transition, reward, states=states)


@pytest.mark.parametrize("row", [[0.5, 0.6], [1.2, -0.2], [np.nan, 1]])
def test_policy_must_be_a_distribution(row):
    with pytest.raises(MDPError, match="policy: the row of state 1 must be nonnegative and sum to one, got"):
        two_states().under([[1, 0], row])


def test_policy_of_the_wrong_shape():
    with pytest.raises(ShapeError, match=r"policy must be \[2, 2\], got \[2, 3\]"):
        value(two_states(), np.full((2, 3), 1 / 3))
