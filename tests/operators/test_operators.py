"""Every operator's target, computed by hand: c_R * gap + gamma * c_T * discrepancy."""

import itertools
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch

import pamd
from pamd import exact
from pamd.distances.base import NoOptions
from pamd.errors import ConfigError, ShapeError, UnknownNameError
from pamd.operators.base import OperatorConfig
from pamd.types import Latents, Pairs

PAIRS = Pairs(torch.tensor([0, 2, 1]), torch.tensor([1, 0, 1]))
"""Reward gaps 1/2, 2 and 0; the last is a row with itself."""

VARIANTS = [
    ("bisimulation", {"per_coordinate": False}, {"next_mean", "next_std"}),
    ("bisimulation", {"per_coordinate": True}, {"next_mean", "next_std"}),
    ("bisimulation-det", {}, {"next_mean"}),
    ("independent", {"next_latents": "replay"}, {"z_next"}),
    ("independent", {"next_latents": "model"}, {"next_sample"}),
    ("value", {}, {"value"}),
    ("advantage", {}, {"value", "action_value"}),
    ("n-step", {"n": 2}, {"z_next", "z_window", "window_reward", "window_length", "window_not_done"}),
    ("state-action", {}, {"action_reward", "z_next"}),
    ("psm", {}, {"policy_action", "z_next"}),
    ("psm", {"actions": "discrete", "next_latents": "model"}, {"policy_action", "next_sample"}),
    ("kernel", {"next_latents": "replay"}, {"z_next"}),
    ("kernel", {"next_latents": "model", "squared": False}, {"next_sample", "next_sample_other"}),
]
ONE_STEP = [variant for variant in VARIANTS if variant[0] not in ("value", "advantage", "n-step")]
SCALAR = ("value", "advantage")
"""Operators whose targets are [P] for every distance."""


def latents() -> Latents:
    return Latents(
        z=torch.tensor([[9.0, 9], [7, 5], [8, 1]]),
        reward=torch.tensor([0, 0.5, -2]),
        z_next=torch.tensor([[0.0, 0], [1, 0], [0, 2]]),
        next_mean=torch.tensor([[0.0, 0], [3, 4], [0, 1]]),
        next_std=torch.tensor([[1.0, 1], [5, 4], [1, 1]]),
        next_sample=torch.tensor([[0.0, 0], [0, 6], [8, 0]]),
        next_sample_other=torch.tensor([[0.0, 1], [0, 4], [9, 0]]),
        value=torch.tensor([1.0, 3, 6]),
        action_value=torch.tensor([1.5, 3.5, 4]),
        policy_action=torch.tensor([[1, -1, 0], [0.5, 0, 0], [-1, 0, 1]]),
        action_reward=torch.tensor([[0.0, 1], [0.5, 3], [0, 0]]),
        z_window=torch.tensor([[0.0, 0], [4, 0], [0, 8]]),
        window_reward=torch.tensor([[0, 1.0], [0.5, 4], [-2, 0]]),
        window_length=torch.tensor([2, 2, 1]),
        window_not_done=torch.tensor([1.0, 1, 1]),
    )


def target(name, options, distance="l1", pairs=PAIRS, batch=None):
    operator = pamd.operator(name, **{"gamma": 0.5, **options})
    return operator.target(batch or latents(), pairs, pamd.distance(distance, latent_dim=2))


@pytest.mark.parametrize(
    ("name", "options", "distance", "expected"),
    [
        # W2^2 of the first pair is (3^2 + 4^2) of the means plus (4^2 + 3^2) of the deviations.
        ("bisimulation", {}, "l1", [0.5 + 0.5 * 50**0.5, 2.5, 0]),
        ("bisimulation", {"per_coordinate": True}, "l1", [[3, 3], [2, 2.5], [0, 0]]),
        (
            "bisimulation",
            {"per_coordinate": True, "reward_gap": "smooth-l1"},
            "l1",
            [[2.625, 2.625], [1.5, 2], [0, 0]],
        ),
        ("bisimulation-det", {}, "l1", [4, 2.5, 0]),
        ("bisimulation-det", {}, "l2", [3, 2.5, 0]),
        # As DBC-Det was released: Huber per coordinate of (3, 4) is (2.5, 3.5), of (0, 1) it is (0, 0.5).
        ("bisimulation-det", {"reward_gap": "smooth-l1"}, "coordinate", [[1.375, 1.875], [1.5, 1.75], [0, 0]]),
        ("independent", {}, "l1", [1, 3, 0]),
        ("independent", {"next_latents": "model"}, "l1", [3.5, 6, 0]),
        ("independent", {"reward_gap": "smooth-l1"}, "l1", [0.625, 2.5, 0]),
        ("independent", {"c_R": 4.0}, "l1", [2.5, 9, 0]),
        ("independent", {"c_R": 0.0}, "l1", [0.5, 1, 0]),
        ("independent", {"c_R": "1-gamma", "gamma": 0.75}, "l1", [0.875, 2, 0]),
        ("independent", {"c_T": 0.5}, "l1", [0.75, 2.5, 0]),
        ("independent", {"c_T": 1.5}, "l1", [1.25, 3.5, 0]),
        ("independent", {"gamma": 0}, "l1", [0.5, 2, 0]),
        ("value", {}, "l1", [2, 5, 0]),
        ("value", {"c_R": "1-gamma"}, "l1", [1, 2.5, 0]),
        ("value", {"reward_gap": "smooth-l1"}, "l1", [1.5, 4.5, 0]),
        # Advantages 1/2, 1/2 and -2.
        ("advantage", {}, "l1", [0, 2.5, 0]),
        # Two steps, 1/2 + 3 / 2 + 4 / 4; windows of two lengths: one step, 2 + 2 / 2.
        ("n-step", {"n": 2}, "l1", [3, 3, 0]),
        ("n-step", {"n": 2, "c_R": 0.5, "c_T": 1.5}, "l1", [0.25 + 1.125 + 2.25, 1 + 1.5, 0]),
        ("n-step", {"n": 2, "reward_gap": "smooth-l1"}, "l1", [0.125 + 1.25 + 1, 2.5, 0]),
        # The second action of the first pair has the larger gap: 2 + 1 / 2; and of the next one 1 + 2 / 2.
        ("state-action", {}, "l1", [2.5, 2, 0]),
        ("state-action", {"reward_gap": "smooth-l1"}, "l1", [2, 1.5, 0]),
        # Gaps of the actions' coordinates: 1/2, 1, 0 and 2, 1, 1.
        ("psm", {}, "l1", [0.5 + 0.5, 4 / 3 + 1, 0]),
        ("psm", {"c_R": 3.0, "reward_gap": "smooth-l1"}, "l1", [0.625 + 0.5, 2.5 + 1, 0]),
        ("psm", {"actions": "discrete", "next_latents": "model"}, "l1", [0.75 + 3, 2 + 4, 0]),
        ("kernel", {}, "l1", [1.5, 5, 0]),
        ("kernel", {"squared": False}, "l1", [1.5**0.5, 6**0.5, 0]),
        # d^2 4 and 9 between the samples, less half of the spreads 1, 2 and 1, 1.
        ("kernel", {"next_latents": "model"}, "l1", [1 + 1.25, 4 + 4, 0]),
        ("kernel", {"next_latents": "model", "squared": False}, "l1", [(1 + 6.75) ** 0.5, (4 + 40) ** 0.5, 0]),
    ],
)
def test_target_by_hand(name, options, distance, expected):
    torch.testing.assert_close(target(name, options, distance), torch.tensor(expected, dtype=torch.float32))


def test_defaults_are_the_papers():
    config = pamd.operator("independent").config
    assert (config.gamma, config.reward_coefficient, config.c_T) == (0.99, 1, 1)
    assert (config.reward_gap, config.next_latents) == ("abs", "replay")
    assert pamd.operator("bisimulation").config.per_coordinate is False


@pytest.mark.parametrize(("name", "options", "needs"), VARIANTS)
def test_needs_are_read_and_nothing_else_is(name, options, needs):
    assert pamd.operator(name, **options).needs == needs
    usual = target(name, options)
    for field in fields(Latents):
        if field.name in ("window_length", "window_not_done"):
            continue  # no numbers to be tripled; test_n_step.py has their effects
        # z_target is absent here, and stays so: nobody asks for it.
        if (value := getattr(latents(), field.name)) is not None:
            tripled = target(name, options, batch=replace(latents(), **{field.name: 3 * value}))
            # A value or a window holds the reward already.
            unread = {"reward"} if name in ("value", "advantage", "state-action", "psm") else set()
            assert torch.equal(tripled, usual) == (field.name not in (needs | {"reward"}) - unread), field.name


@pytest.mark.parametrize(("name", "options", "needs"), VARIANTS)
def test_missing_latents_are_named(name, options, needs):
    for field in needs:
        with pytest.raises(ShapeError, match=rf"requires Latents\.{field}, which is missing"):
            target(name, options, batch=replace(latents(), **{field: None}))
    everything_else = {field.name: None for field in fields(Latents)[2:] if field.name not in needs}
    assert len(target(name, options, batch=replace(latents(), **everything_else))) == 3


@pytest.mark.parametrize("distance", ["l1", "pamd", "coordinate"])
@pytest.mark.parametrize(("name", "options", "needs"), VARIANTS)
def test_target_carries_no_gradient(name, options, needs, distance):
    given = latents()
    for field in fields(Latents):
        if (value := getattr(given, field.name)) is not None and value.is_floating_point():
            value.requires_grad_()
    result = target(name, options, distance, batch=given)
    assert not result.requires_grad
    follows = distance == "coordinate" and name not in ("bisimulation", *SCALAR)
    per_coordinate = options.get("per_coordinate", False) or follows
    assert result.shape == ((3, 2) if per_coordinate else (3,))


@pytest.mark.parametrize("distance", ["l1", "cosine", "mico", "coordinate"])
@pytest.mark.parametrize(("name", "options", "needs"), VARIANTS)
def test_all_pairs_at_once_are_the_pairs_one_by_one(name, options, needs, distance):
    every, one_by_one = Pairs.all(3), replace(Pairs.all(3), complete=False)
    torch.testing.assert_close(
        target(name, options, distance, pairs=every), target(name, options, distance, pairs=one_by_one)
    )


@pytest.mark.parametrize("distance", ["l1", "coordinate"])
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize(("name", "options", "needs"), ONE_STEP)
def test_a_terminated_state_has_no_next_state(name, options, needs, distance, complete):
    pairs = replace(Pairs.all(3), complete=complete)
    usual, no_future = target(name, options, distance, pairs), target(name, {**options, "gamma": 0.0}, distance, pairs)
    for flags in (torch.tensor([1.0, 0.0, 1.0]), torch.tensor([[True], [False], [True]])):
        cut = target(name, options, distance, pairs, replace(latents(), not_done=flags))
        alive = (pairs.left != 1) & (pairs.right != 1)
        torch.testing.assert_close(cut[alive], usual[alive])
        torch.testing.assert_close(cut[~alive], no_future[~alive])
    assert torch.equal(target(name, options, distance, pairs, replace(latents(), not_done=torch.ones(3))), usual)
    assert not torch.equal(usual, no_future)


def test_an_operator_refuses_a_distance_of_another_shape_before_any_computation():
    scalar, per_coordinate = (pamd.operator("bisimulation", per_coordinate=on) for on in (False, True))
    coordinate, l2 = pamd.distance("coordinate", latent_dim=2), pamd.DISTANCES.get("l2")  # an instance, a class
    for operator in (per_coordinate, pamd.operator("independent"), pamd.operator("bisimulation-det")):
        operator.check(coordinate)
    for operator in (scalar, pamd.operator("independent"), pamd.operator("bisimulation-det")):
        operator.check(l2)
    with pytest.raises(
        ConfigError, match=r"Coordinate cannot be combined .*per_coordinate=False.* are \[P, d\], .* \[P\]"
    ):
        scalar.check(coordinate)
    with pytest.raises(ConfigError, match=r"L2 cannot be combined .*per_coordinate=True.* are \[P\], .* \[P, d\]"):
        per_coordinate.check(l2)


def test_the_repr_shows_the_configuration():
    shown = repr(pamd.operator("independent", gamma=0.25, c_R="1-gamma"))
    assert shown.startswith("Independent(")
    assert "gamma=0.25" in shown
    assert "c_R='1-gamma'" in shown


class Table(pamd.Distance[NoOptions]):
    """U(s, s') looked up, for one-hot latents; of no symmetry, so that sides cannot be mixed up unseen."""

    Config = NoOptions

    def __init__(self, U: np.ndarray) -> None:
        super().__init__(len(U), NoOptions())
        self.U = torch.from_numpy(U)

    def _value(self, z, z_prime):
        return torch.einsum("pi,ij,pj->p", z, self.U, z_prime)


@pytest.mark.parametrize("complete", [True, False])
def test_independent_operator_is_the_exact_one_in_expectation(complete):
    # Rewards do not depend on the action: one sample's |r - r'| is else no estimate of |r^pi - r^pi'|.
    rng = np.random.default_rng(0)
    mdp = exact.garnet(3, 2, 3, rng=rng, gamma=0.7)
    mdp = exact.FiniteMDP(mdp.transition, np.repeat(mdp.reward[:, :1], 2, axis=1), mdp.gamma)
    policy, U = rng.dirichlet(np.ones(2), size=3), rng.random((3, 3))
    P, r = (torch.from_numpy(array) for array in mdp.under(policy))

    # Every transition (s, s_next) once; a pair of them happens with the product of its probabilities.
    s, s_next = torch.tensor(list(itertools.product(range(3), repeat=2))).T
    one_hot = torch.eye(3, dtype=torch.float64)
    batch = Latents(z=one_hot[s], reward=r[s], z_next=one_hot[s_next])
    pairs = replace(Pairs.all(9), complete=complete)  # in matrix form, and pair by pair
    sampled = pamd.operator("independent", gamma=0.7, c_R=0.3).target(batch, pairs, Table(U))
    probability = P[s, s_next][pairs.left] * P[s, s_next][pairs.right]
    expected = torch.zeros(3, 3, dtype=torch.float64)
    expected.index_put_((s[pairs.left], s[pairs.right]), probability * sampled, accumulate=True)

    np.testing.assert_allclose(expected, exact.mico_operator(mdp, policy, 0.3)(U), atol=1e-12)


def sampled_operator(mdp, policy, given, operator):
    """The mean of an operator's targets over all transitions of the policy, as a function of d [S, S]."""
    P, states = torch.from_numpy(mdp.under(policy)[0]), mdp.n_states
    s, s_next = torch.tensor(list(itertools.product(range(states), repeat=2))).T
    one_hot, pairs = torch.eye(states, dtype=torch.float64), Pairs.all(states**2)
    batch = Latents(z=one_hot[s], z_next=one_hot[s_next], **{name: value[s] for name, value in given.items()})
    probability = P[s, s_next][pairs.left] * P[s, s_next][pairs.right]

    def apply(d: np.ndarray) -> np.ndarray:
        expected = torch.zeros(states, states, dtype=torch.float64)
        targets = probability * operator.target(batch, pairs, Table(d))
        return expected.index_put_((s[pairs.left], s[pairs.right]), targets, accumulate=True).numpy()

    return apply


@pytest.mark.parametrize("deterministic", [True, False])
def test_the_fixed_point_of_psm_is_the_exact_one(deterministic):
    rng = np.random.default_rng(0)
    mdp = exact.garnet(4, 3, 1 if deterministic else 3, rng=rng, gamma=0.7)
    policy = np.eye(3)[[0, 1, 1, 2]] if deterministic else rng.dirichlet(np.ones(3), size=4)
    given = {"reward": torch.zeros(4), "policy_action": torch.from_numpy(policy)}
    operator = pamd.operator("psm", gamma=0.7, c_R=0.3, actions="discrete")
    found = exact.fixed_point(sampled_operator(mdp, policy, given, operator), np.zeros((4, 4)), 0.7, tolerance=1e-11)
    options = {"c_R": 0.3, "tolerance": 1e-11}
    np.testing.assert_allclose(found, exact.policy_similarity(mdp, policy, **options), atol=1e-10)
    coupled = exact.policy_similarity(mdp, policy, coupling="wasserstein", **options)
    assert np.allclose(found, coupled, atol=1e-10) == deterministic  # else the best coupling is below the independent
    assert (coupled <= found + 1e-10).all()
    assert found.max() <= operator.bound(0.0)


@pytest.mark.parametrize(
    ("options", "gap"), [({}, 2), ({"reward_gap": "smooth-l1"}, 1.5), ({"actions": "discrete"}, 1)]
)
def test_the_bound_of_psm_is_that_of_its_actions(options, gap):
    """The largest gap, of opposite actions or of policies without a common action, at every step."""
    operator = pamd.operator("psm", gamma=0.9, c_R=0.5, **options)
    first, other = ([1.0, 0, 0], [0, 1.0, 0]) if options.get("actions") else ([1.0] * 3, [-1.0] * 3)
    given = Latents(z=torch.zeros(2, 2), reward=torch.zeros(2), policy_action=torch.tensor([first, other]))
    given = replace(given, z_next=torch.zeros(2, 2))
    one_step = operator.target(given, Pairs(torch.tensor([0]), torch.tensor([1])), pamd.distance("l2", latent_dim=2))
    assert float(one_step) == pytest.approx(0.5 * gap)
    assert operator.bound(7.0) == pytest.approx(0.5 * gap / (1 - 0.9))  # rewards do not matter


def test_total_variation_has_no_huber_loss():
    with pytest.raises(ConfigError, match=r"actions='discrete' requires reward_gap='abs'.*got 'smooth-l1'"):
        pamd.operator("psm", actions="discrete", reward_gap="smooth-l1")


def test_unknown_names_get_the_nearest_valid_one():
    with pytest.raises(UnknownNameError, match=r"unknown operator 'independant'\. Did you mean 'independent'"):
        pamd.operator("independant")
    with pytest.raises(UnknownNameError, match=r"option of operator 'independent' 'gama'\. Did you mean 'gamma'"):
        pamd.operator("independent", gama=0.9)
    with pytest.raises(UnknownNameError, match=r"'next_latents'.* Valid: c_R, c_T, gamma, per_coordinate, reward_gap"):
        pamd.operator("bisimulation", next_latents="model")  # another operator's option


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gamma": 1.0}, "gamma must be .*at least 0 and below 1, got 1"),
        ({"gamma": -0.1}, "gamma must be .*at least 0 and below 1, got -0.1"),
        ({"gamma": float("nan")}, "got nan"),
        ({"gamma": "0.9"}, "gamma must be a finite number .*got '0.9'"),
        ({"gamma": 0.5, "c_T": 2.0}, r"not a contraction; got 0.5 \* 2.0"),
        ({"c_T": -1.0}, "c_T must be a finite number of at least 0, got -1"),
        ({"c_R": -1.0}, "c_R must be a finite number of at least 0.*, got -1"),
        ({"c_R": float("inf")}, "c_R must be .*finite"),
        ({"c_R": "gamma"}, "c_R.*'gamma'"),
        ({"reward_gap": "squared"}, "'squared'. Valid: abs, smooth-l1"),
        ({"next_latents": "dream"}, "'dream'. Valid: model, replay"),
    ],
)
def test_options_out_of_range(options, says):
    with pytest.raises(ConfigError, match=says):
        pamd.operator("independent", **options)


class Misspelled(pamd.Operator[OperatorConfig]):
    """Needs an input that does not exist."""

    Config = OperatorConfig
    needs = frozenset({"z_nxt"})  # type: ignore[assignment]

    def _discrepancy(self, latents: Latents, pairs: Pairs, distance: pamd.Distance[Any]) -> torch.Tensor:
        raise AssertionError("the inputs are checked first")


def test_an_unknown_input_of_an_operator_is_named() -> None:
    made = Misspelled(OperatorConfig())
    with pytest.raises(UnknownNameError, match=r"unknown input of operator Misspelled 'z_nxt'\. Did you mean 'z_next'"):
        made.target(latents(), PAIRS, pamd.distance("l2", latent_dim=2))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, about its own use of torch.jit
def test_targets_stop_derivatives_of_both_modes() -> None:
    """`no_grad` does not stop forward-mode derivatives."""
    operator, distance, z_next = pamd.operator("independent"), pamd.distance("l2", latent_dim=2), latents().z_next

    def target(z_next: torch.Tensor) -> torch.Tensor:
        return operator.target(replace(latents(), z_next=z_next), PAIRS, distance)

    assert z_next is not None
    assert not target(z_next.requires_grad_()).requires_grad
    value, tangent = torch.func.jvp(target, (z_next.detach(),), (z_next.detach(),))
    assert value.any()
    assert not tangent.any()
