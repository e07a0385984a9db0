"""Building finite MDPs: by hand, at random, from a grid, and with duplicated states."""

import numpy as np
import pytest

from pamd.errors import ConfigError, MDPError, UnknownNameError
from pamd.exact import MDPBuilder, duplicated, garnet, grid_world

UP, DOWN, LEFT, RIGHT = range(4)
PLAN = """
..G
.#.
"""  # states in reading order: 0,0  0,1  0,2 (goal)  1,0  1,2


def test_builder_writes_edges_and_leaves_the_rest_in_place():
    builder = MDPBuilder(states=["left", "right"], actions=["stay", "go"])
    mdp = builder.add("left", "go", {"right": 0.9, "left": 0.1}, reward=2.0).build(gamma=0.5)
    np.testing.assert_array_equal(mdp.transition, [[[1, 0], [0.1, 0.9]], [[0, 1], [0, 1]]])
    np.testing.assert_array_equal(mdp.reward, [[0, 2], [0, 0]])
    assert (mdp.gamma, mdp.states) == (0.5, ("left", "right"))


def test_builder_defaults_to_no_reward_and_a_discount_of_nine_tenths():
    mdp = MDPBuilder(["a", "b"], ["go"]).add("a", "go", {"b": 1}).build()
    assert mdp.gamma == 0.9
    assert not mdp.reward.any()


def test_builder_edge_said_twice_is_replaced():
    builder = MDPBuilder(["a", "b"], ["go"]).add("a", "go", {"b": 1}, reward=1).add("a", "go", {"a": 1})
    np.testing.assert_array_equal(builder.build().transition[0, 0], [1, 0])
    assert builder.build().reward[0, 0] == 0


def test_builder_checks_what_was_written():
    builder = MDPBuilder(["a", "b"], ["go"]).add("b", "go", {"a": 0.5, "b": 0.4})
    with pytest.raises(MDPError, match=r"row of state 1 must be .* sum to one, got \[0.5 0.4\]"):
        builder.build()
    with pytest.raises(MDPError, match=r"gamma must lie in \[0, 1\), got 1"):
        MDPBuilder(["a"], ["go"]).build(gamma=1)


@pytest.mark.parametrize(
    ("state", "action", "following", "says"),
    [
        ("lefft", "stay", "right", "unknown state 'lefft'. Did you mean 'left'"),
        ("left", "sty", "right", "unknown action 'sty'. Did you mean 'stay'"),
        ("left", "stay", "rihgt", "unknown state 'rihgt'. Did you mean 'right'"),
    ],
)
def test_builder_names_the_nearest_state_or_action(state, action, following, says):
    with pytest.raises(UnknownNameError, match=says):
        MDPBuilder(["left", "right"], ["stay", "go"]).add(state, action, {following: 1.0})


@pytest.mark.parametrize(("states", "actions"), [([], ["a"]), (["s"], []), (["s", "s"], ["a"]), (["s"], ["a", "a"])])
def test_builder_needs_each_name_once(states, actions):
    with pytest.raises(MDPError, match="at least one state and one action, with different names"):
        MDPBuilder(states, actions)


@pytest.mark.parametrize("branching", [1, 3, 6])
def test_garnet_rows_are_distributions_over_branching_states(branching):
    mdp = garnet(6, 4, branching, rng=np.random.default_rng(0), gamma=0.8)
    assert mdp.transition.shape == (6, 4, 6)
    np.testing.assert_allclose(mdp.transition.sum(-1), 1)
    assert ((mdp.transition > 0).sum(-1) == branching).all()
    assert mdp.gamma == 0.8
    assert 0 <= mdp.reward.min() < 0.2 < 0.8 < mdp.reward.max() <= 1


def test_garnet_leads_to_every_state_sooner_or_later():
    mdp = garnet(5, 8, 2, rng=np.random.default_rng(0))
    assert mdp.transition.any((0, 1)).all()


def test_garnet_is_its_generators_alone():
    first, again, other = (garnet(5, rng=np.random.default_rng(seed)) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first.transition, again.transition)
    np.testing.assert_array_equal(first.reward, again.reward)
    assert (first.transition != other.transition).any()
    assert (first.reward != other.reward).any()


@pytest.mark.parametrize("sizes", [(3, 2, 4), (3, 2, 0), (3, 0, 1), (0, 2, 1)])
def test_garnet_sizes_out_of_range(sizes):
    with pytest.raises(ConfigError, match="1 <= branching <= states, got {}, {}, {}".format(*sizes)):
        garnet(*sizes, rng=np.random.default_rng(0))


def test_grid_moves_unless_a_wall_or_the_edge_is_in_the_way():
    mdp = grid_world(PLAN)
    assert mdp.states == ("0,0", "0,1", "0,2", "1,0", "1,2")
    ends = {
        0: {UP: 0, DOWN: 3, LEFT: 0, RIGHT: 1},
        1: {UP: 1, DOWN: 1, LEFT: 0, RIGHT: 2},  # the wall is below
        3: {UP: 0, DOWN: 3, LEFT: 3, RIGHT: 3},  # the wall is to the right
        4: {UP: 2, DOWN: 4, LEFT: 4, RIGHT: 4},
    }
    for state, moves in ends.items():
        for move, end in moves.items():
            np.testing.assert_array_equal(mdp.transition[state, move], np.eye(5)[end])


@pytest.mark.parametrize("slip", [0.0, 0.4])
def test_grid_goal_absorbs_and_alone_pays(slip):
    mdp = grid_world(PLAN, slip=slip)
    np.testing.assert_array_equal(mdp.transition[2], np.tile(np.eye(5)[2], (4, 1)))
    np.testing.assert_array_equal(mdp.reward, np.outer(np.eye(5)[2], np.ones(4)))


def test_grid_slip_is_a_random_move_of_the_four():
    mdp = grid_world(PLAN, slip=0.4)
    # From 0,1 to the right: 0.6 as meant, 0.1 each way by slipping, of which up and down are blocked.
    np.testing.assert_allclose(mdp.transition[1, RIGHT], [0.1, 0.2, 0.7, 0, 0])
    # Slipping always, the action no longer matters.
    always = grid_world(PLAN, slip=1).transition[1]
    np.testing.assert_allclose(always, np.tile([0.25, 0.5, 0.25, 0, 0], (4, 1)))


def test_grid_bad_input():
    with pytest.raises(MDPError, match="at least one goal 'G'"):
        grid_world("..\n..")
    for slip in (-0.1, 1.1, np.nan):
        with pytest.raises(ConfigError, match=rf"slip must lie in \[0, 1\], got {slip}"):
            grid_world(PLAN, slip=slip)
    with pytest.raises(MDPError, match="gamma"):
        grid_world(PLAN, gamma=1.0)


def test_duplicated_states_share_rewards_and_are_entered_alike():
    mdp = MDPBuilder(["a", "b"], ["go"]).add("a", "go", {"a": 0.4, "b": 0.6}, reward=3).build(gamma=0.7)
    twice = duplicated(mdp)
    assert twice.states == ("a'0", "b'0", "a'1", "b'1")
    np.testing.assert_allclose(twice.transition[:, 0], [[0.2, 0.3, 0.2, 0.3], [0, 0.5, 0, 0.5]] * 2)
    np.testing.assert_array_equal(twice.reward[:, 0], [3, 0, 3, 0])
    assert twice.gamma == 0.7
    assert duplicated(mdp, 3).n_states == 6
    with pytest.raises(ConfigError, match="copies must be at least 1, got 0"):
        duplicated(mdp, 0)
