"""The metric loss: which pairs, which side, which regression, and where gradients go."""

import copy
from dataclasses import fields, replace

import pytest
import torch
from torch.nn import functional as F

import pamd
from pamd.errors import ShapeError
from pamd.objective import Objective, make_pairs, metric_loss
from pamd.types import Latents, Pairs


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def two_rows() -> Latents:
    """All pairs with l2 and gamma 1/2: values 0, 5, 5, 0 and targets 0, 2, 2, 0."""
    return Latents(
        z=torch.tensor([[0.0, 0], [3, 4]], requires_grad=True),
        reward=torch.tensor([0.0, 1]),
        z_next=torch.tensor([[0.0, 0], [0, 2]]),
    )


def two_rows_loss(latents: Latents | None = None, **options):
    objective = Objective(pairing="all", **options)
    l2, operator = pamd.distance("l2", latent_dim=2), pamd.operator("independent", gamma=0.5)
    return metric_loss(latents or two_rows(), l2, operator, objective)


def random_latents(batch: int = 6, d: int = 3) -> Latents:
    """Every field present, every field a leaf that could take a gradient."""
    draw = {field.name: torch.rand(batch, d, generator=seeded(i)) for i, field in enumerate(fields(Latents))}
    draw["reward"] = draw["reward"][:, 0].clone()
    return Latents(**{name: value.requires_grad_() for name, value in draw.items()})


def quiet_pamd(d: int = 3) -> pamd.Distance:
    """PAMD with its exact penalty, so that two calls agree."""
    torch.manual_seed(0)
    return pamd.distance("pamd", latent_dim=d, hidden=8, aux_weight=0.5, aux_pairs=None, aux_probes=None)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"regression": "mse"}, (3**2 + 3**2) / 4),
        ({"regression": "smooth-l1"}, (2.5 + 2.5) / 4),
        ({"regression": "mse", "weight": 0.5}, (3**2 + 3**2) / 8),
        ({"weight": 0.0}, 0),
    ],
)
def test_loss_by_hand(options, expected):
    loss = two_rows_loss(**options)
    assert loss.value.item() == pytest.approx(expected)
    assert loss.value.shape == ()


def test_defaults_are_the_papers():
    assert Objective() == Objective(pairing="permutation", right="online", regression="mse", weight=1.0, penalty_sign=1)


def test_metrics_are_unweighted_and_detached():
    metrics = two_rows_loss(weight=0.5).metrics
    assert {name: value.item() for name, value in metrics.items()} == {
        "metric_loss": 4.5,
        "penalty": 0,
        "target_mean": 1,
        "target_max": 2,
        "distance_mean": 2.5,
        "distance_max": 5,
    }
    assert not any(value.requires_grad for value in metrics.values())


def test_gradient_by_hand_on_one_side_and_on_both():
    # d/dz of (5 - 2)^2 / 4 is 1.5 along the unit displacement (0.6, 0.8), for each of the two pairs.
    online = two_rows()
    two_rows_loss(online).value.backward()
    torch.testing.assert_close(online.z.grad, torch.tensor([[-1.8, -2.4], [1.8, 2.4]]))
    slow = replace(two_rows(), z_target=two_rows().z.detach())
    two_rows_loss(slow, right="target").value.backward()
    torch.testing.assert_close(slow.z.grad, torch.tensor([[-0.9, -1.2], [0.9, 1.2]]))


def test_right_target_measures_against_the_slow_latents():
    latents = replace(two_rows(), z_target=torch.zeros(2, 2))
    # Values |z| = 0, 0, 5, 5 against targets 0, 2, 2, 0.
    assert two_rows_loss(latents, right="target").value.item() == pytest.approx((0 + 4 + 9 + 25) / 4)
    assert two_rows_loss(latents, right="online").value.item() == pytest.approx(4.5)
    with pytest.raises(ShapeError, match=r'right="target", but Latents\.z_target is missing'):
        two_rows_loss(right="target")


def test_pairing_makes_the_pairs_of_its_name():
    cpu = torch.device("cpu")
    drawn = make_pairs("permutation", 9, seeded(), cpu)
    assert torch.equal(drawn.right, Pairs.permutation(9, seeded()).right)
    assert (len(drawn), drawn.complete) == (9, False)
    every = make_pairs("all", 9, None, cpu)
    assert (len(every), every.complete) == (81, True)


def test_permutation_pairs_are_the_generators():
    latents, l2 = random_latents(), pamd.distance("l2", latent_dim=3)
    operator = pamd.operator("independent", gamma=0.5)
    pairs = Pairs.permutation(6, seeded(4))
    value = l2(latents.z[pairs.left], latents.z[pairs.right])
    gap = (latents.reward[pairs.left] - latents.reward[pairs.right]).abs()
    target = gap + 0.5 * l2(latents.z_next[pairs.left], latents.z_next[pairs.right])
    loss = metric_loss(latents, l2, operator, generator=seeded(4)).value
    torch.testing.assert_close(loss, F.mse_loss(value, target))
    assert metric_loss(latents, l2, operator, generator=seeded(5)).value != loss


def test_randomised_penalty_is_the_generators_too():
    distance = pamd.distance("pamd", latent_dim=3, hidden=8, aux_pairs=2, aux_probes=1)
    operator = pamd.operator("independent")
    first, again = (metric_loss(random_latents(), distance, operator, generator=seeded(4)).value for _ in range(2))
    assert torch.equal(first, again)


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_penalty_sign_turns_the_penalty_alone(weight):
    latents, distance, operator = random_latents(), quiet_pamd(), pamd.operator("independent", gamma=0.5)
    as_it_is, turned = (
        metric_loss(latents, distance, operator, Objective(pairing="all", penalty_sign=sign, weight=weight))
        for sign in (1, -1)
    )
    residual, penalty = as_it_is.metrics["metric_loss"], as_it_is.metrics["penalty"]
    assert penalty < -1e-3  # PAMD rewards anisotropy
    torch.testing.assert_close(as_it_is.value, weight * (residual + penalty))
    torch.testing.assert_close(turned.value, weight * (residual - penalty))
    assert turned.metrics["penalty"] == penalty


@pytest.mark.parametrize("slow_distance", [False, True])
@pytest.mark.parametrize("right", ["online", "target"])
@pytest.mark.parametrize(
    ("name", "options"),
    [("bisimulation", {}), ("bisimulation-det", {}), ("independent", {}), ("independent", {"next_latents": "model"})],
)
def test_gradients_reach_the_latents_and_the_distance_alone(name, options, right, slow_distance):
    latents, distance = random_latents(), quiet_pamd()
    slow = copy.deepcopy(distance) if slow_distance else None
    loss = metric_loss(latents, distance, pamd.operator(name, **options), Objective("all", right), target_distance=slow)
    loss.value.backward()
    assert {field.name for field in fields(Latents) if getattr(latents, field.name).grad is not None} == {"z"}
    assert latents.z.grad.abs().sum() > 0
    assert sum(parameter.grad.abs().sum() for parameter in distance.parameters()) > 0
    assert slow is None or all(parameter.grad is None for parameter in slow.parameters())


def test_distance_gradient_is_of_the_measured_side_only():
    latents, distance, operator = random_latents(), quiet_pamd(), pamd.operator("independent", gamma=0.5)
    metric_loss(latents, distance, operator, Objective("all")).value.backward()
    constant = operator.target(latents, Pairs.all(6), distance)
    measured = distance.measure_between(latents.z, latents.z, Pairs.all(6))
    by_hand = F.mse_loss(measured.value, constant) + measured.penalty
    expected = torch.autograd.grad(by_hand, list(distance.parameters()))
    torch.testing.assert_close([parameter.grad for parameter in distance.parameters()], list(expected))


def test_target_distance_measures_the_next_states():
    l1 = pamd.distance("l1", latent_dim=2)
    l2, operator = pamd.distance("l2", latent_dim=2), pamd.operator("independent", gamma=0.5)
    latents = replace(two_rows(), z_next=torch.tensor([[0.0, 0], [3, 4]]))
    loss = metric_loss(latents, l2, operator, Objective("all"), target_distance=l1)
    assert loss.metrics["target_max"] == 1 + 0.5 * 7
    assert loss.metrics["distance_max"] == 5
    assert metric_loss(latents, l2, operator, Objective("all")).metrics["target_max"] == 1 + 0.5 * 5


def test_coordinates_go_with_coordinates():
    latents = random_latents()
    coordinate, l2 = pamd.distance("coordinate", latent_dim=3), pamd.distance("l2", latent_dim=3)
    scalar, per_coordinate = (pamd.operator("bisimulation", reading=reading) for reading in ("norm", "coordinate"))
    with pytest.raises(ShapeError, match=r"Coordinate gives \[6, 3\] .* Bisimulation a target of \[6\].* goes with"):
        metric_loss(latents, coordinate, scalar)
    with pytest.raises(ShapeError, match=r"L2 gives \[6\] .* Bisimulation a target of \[6, 3\].* goes with"):
        metric_loss(latents, l2, per_coordinate)
    assert metric_loss(latents, coordinate, per_coordinate).value.isfinite()


def test_all_pairs_cosine_is_simsrs_matrix_formula():
    latents = random_latents()
    Z, p, r = F.normalize(latents.z, dim=-1).detach(), latents.next_sample, latents.reward
    loss = metric_loss(
        replace(latents, z=Z),
        pamd.distance("cosine", latent_dim=3, preset="released"),  # p is not re-normalised
        pamd.operator("independent", gamma=0.9, next_latents="model"),
        Objective(pairing="all", regression="smooth-l1"),
    )
    expected = F.smooth_l1_loss(1 - Z @ Z.T, (r[:, None] - r).abs() + 0.9 * (1 - p @ p.T))
    torch.testing.assert_close(loss.value, expected.detach())
