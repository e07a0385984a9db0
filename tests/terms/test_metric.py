"""The metric loss: which pairs, which side, which regression, and where gradients go."""

import copy
from dataclasses import fields, replace

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import pamd
from pamd.errors import ConfigError, DtypeError, ShapeError
from pamd.operators.base import OperatorConfig
from pamd.optimization import expectile_loss
from pamd.terms.metric import Objective, make_pairs, metric_loss
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


OPTIONAL = ("not_done", "weight")
PER_ROW = ("reward", "reward_std", *OPTIONAL, "value", "action_value", "window_length", "window_not_done")


def random_latents(batch: int = 6, d: int = 3, absent: tuple[str, ...] = OPTIONAL) -> Latents:
    """Every field but `absent`, each a leaf that could take a gradient."""
    draw = {field.name: torch.rand(batch, d, generator=seeded(i)) for i, field in enumerate(fields(Latents))}
    draw |= {name: draw[name][:, 0].clone() for name in PER_ROW}
    return Latents(**{name: value.requires_grad_() for name, value in draw.items() if name not in absent})


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
        ({"regression": "expectile"}, (1 - 0.7) * (3**2 + 3**2) / 4),  # the values are above their targets
        ({"regression": "expectile", "expectile": 0.1}, 0.9 * (3**2 + 3**2) / 4),
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


def test_randomized_penalty_is_the_generators_too():
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
    [
        *((name, {}) for name in pamd.OPERATORS.names()),
        ("independent", {"next_latents": "model"}),
        ("kernel", {"next_latents": "model", "squared": False}),
    ],
)
def test_gradients_reach_the_latents_and_the_distance_alone(name, options, right, slow_distance):
    latents, distance = random_latents(absent=()), quiet_pamd()
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
    scalar, per_coordinate = (pamd.operator("bisimulation", per_coordinate=on) for on in (False, True))
    with pytest.raises(ConfigError, match=r"Coordinate cannot be combined with operator Bisimulation.* are \[P, d\]"):
        metric_loss(latents, coordinate, scalar)
    with pytest.raises(ConfigError, match=r"L2 cannot be combined with operator Bisimulation.* are \[P\], the targets"):
        metric_loss(latents, l2, per_coordinate)
    assert metric_loss(latents, coordinate, per_coordinate).value.isfinite()
    following = pamd.operator("independent")
    assert metric_loss(latents, coordinate, following, target_distance=coordinate).value.isfinite()
    with pytest.raises(ConfigError, match="Coordinate cannot be combined with target_distance L2"):
        metric_loss(latents, coordinate, following, target_distance=l2)


def test_an_operator_that_answers_in_another_shape_is_refused():
    class Wrong(pamd.Operator[OperatorConfig]):
        needs = frozenset()

        def _discrepancy(self, latents, pairs, distance):
            return latents.z[pairs.left]

    with pytest.raises(ShapeError, match=r"L2 has values \[6\], but operator Wrong has targets \[6, 3\]"):
        metric_loss(random_latents(), pamd.distance("l2", latent_dim=3), Wrong(OperatorConfig()))


def by_hand(value: float, target: float, tau: float) -> float:
    error = target - value
    return abs(tau - (1 if error < 0 else 0)) * error**2


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("name", ["l2", "coordinate"])
def test_expectile_regression_by_hand(name, tau):
    drawn, d = random_latents(), pamd.distance(name, latent_dim=3)
    latents = Latents(**{field: getattr(drawn, field).detach().double() for field in ("z", "reward", "z_next")})
    operator, pairs, weight = pamd.operator("independent"), Pairs.all(6), latents.reward + 0.5
    value, target = d.between(latents.z, latents.z, pairs).view(36, -1), operator.target(latents, pairs, d).view(36, -1)
    assert (value < target).any()
    assert (value > target).any()
    per_pair = []
    for values, targets in zip(value.tolist(), target.tolist(), strict=True):
        errors = [by_hand(*both, tau) for both in zip(values, targets, strict=True)]
        per_pair.append(sum(errors) / len(errors))
    objective = Objective("all", regression="expectile", expectile=tau)
    plain = metric_loss(latents, d, operator, objective).value
    assert plain.item() == pytest.approx(sum(per_pair) / 36, abs=1e-10)
    of_pairs = ((weight[pairs.left] + weight[pairs.right]) / 2).tolist()
    expected = sum(w * error for w, error in zip(of_pairs, per_pair, strict=True)) / sum(of_pairs)
    weighted = metric_loss(replace(latents, weight=weight), d, operator, objective).value
    assert weighted.item() == pytest.approx(expected, abs=1e-10)
    if tau == 0.5:
        half = metric_loss(latents, d, operator, Objective("all", weight=0.5)).value
        assert plain.item() == pytest.approx(half.item(), abs=1e-15)


def test_the_minimum_of_expectile_regression_is_the_expectile():
    """At 0.8, the shortfall of the targets above the value is a quarter of the excess over those below."""
    target, value = torch.tensor([0.0, 1.0, 5.0]).double(), torch.zeros(1).double().requires_grad_()
    optimizer = torch.optim.LBFGS([value], max_iter=50, tolerance_grad=1e-12)

    def loss():
        optimizer.zero_grad()
        found = expectile_loss(value.expand(3), target, 0.8)
        found.backward()
        return found

    optimizer.step(loss)
    error = target - value.detach()
    assert 0.8 * float(error.clamp(min=0).sum()) == pytest.approx(-0.2 * float(error.clamp(max=0).sum()), abs=1e-8)
    assert value > target.mean()


@pytest.mark.parametrize(("regression", "errors"), [("mse", (9, 9)), ("smooth-l1", (2.5, 2.5))])
def test_sample_weights_by_hand(regression, errors):
    # The two pairs of different rows have weight 2 each, the pairs of a row with itself 1 and 3.
    weighted = replace(two_rows(), weight=torch.tensor([1.0, 3.0]))
    expected = 2 * sum(errors) / (1 + 2 + 2 + 3)
    assert two_rows_loss(weighted, regression=regression).value.item() == pytest.approx(expected)
    scaled = replace(two_rows(), weight=torch.tensor([10.0, 30.0]))
    assert two_rows_loss(scaled, regression=regression).value.item() == pytest.approx(expected)


@pytest.mark.parametrize("name", ["l2", "coordinate"])
@pytest.mark.parametrize("regression", ["mse", "smooth-l1", "expectile"])
def test_equal_weights_change_nothing_and_zero_weights_give_zero(name, regression):
    latents, d = random_latents(), pamd.distance(name, latent_dim=3)
    objective = Objective("all", regression=regression)

    def loss(batch: Latents) -> torch.Tensor:
        return metric_loss(batch, d, pamd.operator("independent"), objective).value

    torch.testing.assert_close(loss(replace(latents, weight=torch.full((6, 1), 2.5))), loss(latents))
    assert loss(replace(latents, weight=torch.zeros(6))) == 0
    only = replace(latents, weight=torch.eye(6)[2])
    left_out = replace(only, z=latents.z.detach().index_fill(0, torch.tensor([0]), 7.0))
    assert loss(only) != loss(latents)
    assert loss(left_out) != loss(only), "a pair counts where either of its rows has a weight"


def test_a_wrapped_distance_reduces_its_gradients(tmp_path):
    distance, operator = quiet_pamd(), pamd.operator("independent")
    expected = metric_loss(random_latents(), distance, operator, Objective("all"))
    expected_grads = torch.autograd.grad(expected.value, list(distance.parameters()))
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        wrapped, reduced = DistributedDataParallel(distance), []
        wrapped.register_comm_hook(reduced, _reduce)
        loss = metric_loss(random_latents(), wrapped, operator, Objective("all"), target_distance=wrapped)
        loss.value.backward()
    finally:
        dist.destroy_process_group()
    torch.testing.assert_close(loss.value, expected.value)
    assert sum(reduced) == sum(parameter.numel() for parameter in distance.parameters())
    torch.testing.assert_close([parameter.grad for parameter in distance.parameters()], list(expected_grads))


def _reduce(seen: list[int], bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Count what DistributedDataParallel would send, and send nothing."""
    seen.append(bucket.buffer().numel())
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch's tracer looks at it
def test_a_compiled_distance_is_a_distance():
    distance, operator = quiet_pamd(), pamd.operator("independent")
    compiled = torch.compile(distance, backend="eager")
    expected = metric_loss(random_latents(), distance, operator, Objective("all")).value
    torch.testing.assert_close(metric_loss(random_latents(), compiled, operator, Objective("all")).value, expected)


def test_what_is_no_distance_is_refused():
    with pytest.raises(DtypeError, match=r"requires a pamd\.Distance, bare or wrapped, got Linear"):
        metric_loss(random_latents(), torch.nn.Linear(3, 3), pamd.operator("independent"))


def test_all_pairs_cosine_is_simsrs_matrix_formula():
    latents = random_latents()
    Z, p, r = F.normalize(latents.z, dim=-1).detach(), latents.next_sample, latents.reward
    loss = metric_loss(
        replace(latents, z=Z),
        pamd.distance("cosine", latent_dim=3, preset="released"),  # p is not re-normalized
        pamd.operator("independent", gamma=0.9, next_latents="model"),
        Objective(pairing="all", regression="smooth-l1"),
    )
    expected = F.smooth_l1_loss(1 - Z @ Z.T, (r[:, None] - r).abs() + 0.9 * (1 - p @ p.T))
    torch.testing.assert_close(loss.value, expected.detach())
