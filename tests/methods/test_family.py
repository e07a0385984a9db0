"""zp, dbc-unit, dbc-normed and rap: records, and one target or loss of each against numbers from its formula."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pamd
from pamd.errors import ConfigError, ShapeError
from pamd.methods import PIPELINES, Fidelity, OperatorPart, method
from pamd.types import Latents, Pairs

D = 4


def make(name: str, **fields: Any) -> pamd.Representation:
    torch.manual_seed(0)
    made = method(name, latent_dim=D, **fields)
    return pamd.Representation(made, encoder=nn.Linear(5, D), action_dim=2).double()


def transitions(size: int = 7) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(1)
    obs, next_obs = (torch.randn(size, 5, generator=draw).double() for _ in range(2))
    return obs, torch.rand(size, 2, generator=draw).double(), torch.rand(size, generator=draw).double(), next_obs


def test_deepmdp_is_zp_with_a_reward_decoder() -> None:
    assert dataclasses.replace(method("deepmdp").without("reward"), name="zp") == method("zp")
    with pytest.raises(ConfigError, match="no distance"):
        method("zp+pamd")


def test_the_loss_of_zp_is_half_the_squared_error_of_the_next_latent() -> None:
    rep, (obs, action, reward, next_obs) = make("zp"), transitions()
    losses = rep.losses(obs, action, reward, next_obs)
    assert set(losses) == {"transition"}
    z, z_next = (nn.functional.layer_norm(rep.encoder.network(x), (D,)) for x in (obs, next_obs))
    predicted = rep.terms["transition"].model(torch.cat([z, action], -1)).tolist()
    errors = [predicted[i][k] - z_next[i, k].item() for i in range(len(obs)) for k in range(D)]
    expected = sum(error**2 for error in errors) / 2 / len(errors)
    assert losses.total.item() == pytest.approx(expected)


@pytest.mark.parametrize("fidelity", ["paper", "released"])
@pytest.mark.parametrize("comparator", ["", "+pamd", "+diagonal"])
def test_dbc_unit_is_dbc_det_with_a_smaller_reward_weight(comparator: str, fidelity: Fidelity) -> None:
    setting = ["metric.operator.c_R=1-gamma"]
    plain = method(f"dbc-det{comparator}", fidelity, settings=setting)
    assert dataclasses.replace(plain, name=f"dbc-unit{comparator}") == method(f"dbc-unit{comparator}", fidelity)


def test_dbc_normed_is_dbc_in_a_ball() -> None:
    in_a_ball = method("dbc+l2", latent_space="ball")
    assert dataclasses.replace(in_a_ball, name="dbc-normed") == method("dbc-normed")


def test_the_target_of_dbc_normed() -> None:
    rep, (obs, action, reward, next_obs) = make("dbc-normed", ball_radius=0.3), transitions()
    latents = rep.batch_latents(obs, action, reward, next_obs, generator=torch.Generator().manual_seed(0))
    seen: Any = rep.metric.inputs(latents)  # type: ignore[union-attr]
    pairs = Pairs(torch.tensor([0, 3]), torch.tensor([5, 1]))
    target = rep.operator.target(seen, pairs, rep.distance)  # type: ignore[union-attr, arg-type]

    def inside(x: list[float]) -> list[float]:
        length = math.sqrt(sum(v * v for v in x))
        return [v / max(length / 0.3, 1.0) for v in x]

    encoder = rep.target_encoders["ema"].network
    z = [inside(row) for row in encoder(obs).tolist()]
    raw = rep.terms["transition"].model(torch.cat([torch.tensor(z).double(), action], -1)).tolist()
    mean = [inside(row[:D]) for row in raw]
    std = [[1e-4 + (10 - 1e-4) / (1 + math.exp(-v)) for v in row[D:]] for row in raw]
    for p, (i, j) in enumerate(((0, 5), (3, 1))):
        squared = sum((mean[i][k] - mean[j][k]) ** 2 + (std[i][k] - std[j][k]) ** 2 for k in range(D))
        expected = abs(float(reward[i] - reward[j])) + 0.99 * math.sqrt(squared)
        assert float(target[p]) == pytest.approx(expected, rel=1e-5)


def test_the_target_and_the_loss_of_rap_by_hand() -> None:
    latents = Latents(
        z=torch.tensor([[3.0, 0.0], [0.0, 1.0], [2.0, 0.0]], requires_grad=True),
        reward=torch.tensor([0.0, 2.0, 2.1]),
        reward_std=torch.tensor([0.6, 0.8, 0.5]),
        next_mean=torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]),
    )
    operator = pamd.operator("rap", gamma=0.5, c_R=4.0, c_T=0.5)
    distance = pamd.distance("l2", latent_dim=2)
    pairs = Pairs(torch.tensor([0, 1]), torch.tensor([1, 2]))
    # gaps: 4 (4 - 0.36 - 0.64) = 12, and 4 (0.01 - 0.64 - 0.25) < 0; next means are 5 and sqrt(18) apart.
    expected = torch.tensor([math.sqrt(12) + 0.25 * 5, 0.25 * math.sqrt(18)])
    torch.testing.assert_close(operator.target(latents, pairs, distance), expected)
    value = distance(latents.z[pairs.left], latents.z[pairs.right])
    squares, gaps = operator.compared(value, expected, latents, pairs, distance)
    torch.testing.assert_close(gaps, torch.tensor([12.0, -3.52]))
    far = [(math.sqrt(10) - 1.25) ** 2, (math.sqrt(5) - 0.25 * math.sqrt(18)) ** 2]
    torch.testing.assert_close(squares, torch.tensor(far))
    assert squares.requires_grad
    assert not gaps.requires_grad


def test_the_metric_loss_of_rap() -> None:
    rep, (obs, action, reward, next_obs) = make("rap+l2", metric={"pairing": "all"}), transitions()
    losses = rep.losses(obs, action, reward, next_obs)
    z, target = (nn.functional.layer_norm(net.network(obs), (D,)) for net in (rep.encoder, rep.target_encoders["ema"]))
    model, head = rep.terms["transition"].model, rep.terms["state-reward"].layers
    mean = model(torch.cat([target, action], -1))[:, :D]
    sigma = 1e-4 + (1 - 1e-4) * torch.sigmoid(head(target)[:, 1])
    errors = []
    for i, j in itertools.product(range(len(obs)), repeat=2):
        residual = ((z[i] - z[j]).norm() - 0.99 * (mean[i] - mean[j]).norm()) ** 2
        gap = (reward[i] - reward[j]) ** 2 - sigma[i] ** 2 - sigma[j] ** 2
        error = abs((residual - gap).item())
        errors.append(error**2 / 2 if error < 1 else error - 0.5)
    assert losses["metric"].value.item() == pytest.approx(0.5 * sum(errors) / len(errors), rel=1e-6)
    decoded = head(z)
    std = 1e-4 + (1 - 1e-4) * torch.sigmoid(decoded[:, 1])
    likelihood = ((reward - decoded[:, 0]) ** 2 / (2 * std**2) + std.log()).mean()
    assert losses["state-reward"].value.item() == pytest.approx(1e-4 * likelihood.item(), rel=1e-6)


def test_the_record_of_rap() -> None:
    made = method("rap")
    weights = [part.options.weight for part in made.terms]
    assert [part.name for part in made.terms] == ["transition", "state-reward", "metric"]
    assert (made.latent_dim, weights) == (100, [1e-4, 1e-4, 0.5])
    assert made.metric is not None
    assert made.metric.regression == "smooth-l1"
    assert made.distance is not None
    assert (made.distance.name, made.distance.options.beta) == ("mico", 1e-6)
    with pytest.raises(ConfigError, match=r"--set method\.state-reward=\{\}"):
        method("rap", state_reward=None)
    with pytest.raises(ConfigError, match="both predict the reward"):
        method("rap", reward={})
    with pytest.raises(ConfigError, match=r"use 'rap\+l1'"):
        method("rap+coordinate")
    with pytest.raises(ShapeError, match=r"Latents\.reward_std"):
        pamd.operator("rap").target(
            Latents(torch.zeros(2, D), torch.zeros(2), next_mean=torch.zeros(2, D)),
            Pairs.permutation(2),
            pamd.distance("l2", latent_dim=D),
        )


@pytest.mark.parametrize("name", ["dbc+pamd", "dbc-normed+pamd"])
def test_a_learned_distance_is_refused_where_w2_is_euclidean(name: str) -> None:
    with pytest.raises(ConfigError, match=r"use 'dbc-det\+pamd'"):
        method(name)
    assert method("dbc-det+pamd", latent_space="ball").resolved.term("transition").project  # type: ignore[union-attr]


def test_every_pipeline_says_where_it_comes_from() -> None:
    assert all(pipeline.cites for pipeline in PIPELINES.values())


def test_the_ball_without_an_operator_takes_its_defaults() -> None:
    assert method("zp").target_bound(2.0) == pytest.approx(200)
    operator = OperatorPart("bisimulation-det", {"c_R": "1-gamma"})
    assert method("dbc-det", metric={"operator": operator}).target_bound(2.0) == pytest.approx(2)
    of_rap = OperatorPart("rap", {"c_R": 4.0, "gamma": 0.5})
    assert method("rap", metric={"operator": of_rap}).target_bound(3.0) == pytest.approx(12)
