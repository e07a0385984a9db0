"""Latent spaces: what they do to latents and predictions, how long a latent can be, and the ball's reach."""

from __future__ import annotations

import copy
from typing import Any, get_args

import pytest
import torch
from tests.agent.batches import equal, make_agent, make_batch
from torch import Tensor, nn

import pamd
from pamd.errors import ConfigError
from pamd.methods import LatentSpace, OperatorPart
from pamd.representation.encoder import Ball
from pamd.representation.meters import read_meters

D = 6


def make(name: str = "simsr+pamd", spread: float = 1.0, **fields: Any) -> pamd.Representation:
    """A representation whose encoder gives latents of about this length before they are put into their space."""
    torch.manual_seed(0)
    encoder = nn.Linear(5, D)
    with torch.no_grad():
        encoder.weight.mul_(spread)
    return pamd.Representation(pamd.method(name, latent_dim=D, **fields), encoder=encoder, action_dim=3)


def transitions(reward: float = 1.0, size: int = 32) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(1)
    obs, next_obs = (torch.randn(size, 5, generator=draw) for _ in range(2))
    return obs, torch.rand(size, 3, generator=draw), reward * torch.rand(size, generator=draw), next_obs


def test_the_ball_shortens_what_is_too_long_and_nothing_else() -> None:
    ball = Ball(radius=2.0)
    z = torch.tensor([[3.0, 4.0], [0.6, 0.8], [0.0, 0.0], [0.0, -2.0]])
    torch.testing.assert_close(ball(z), torch.tensor([[1.2, 1.6], [0.6, 0.8], [0.0, 0.0], [0.0, -2.0]]))
    z.requires_grad_()
    ball(z).sum().backward()
    assert z.grad is not None
    assert z.grad.isfinite().all()


def test_the_radius_follows_the_rewards_and_never_shrinks() -> None:
    operator = OperatorPart("independent", {"next_latents": "model", "gamma": 0.9, "c_R": 2.0, "c_T": 0.5})
    rep = make(latent_space="ball", metric={"operator": operator})
    half = 2.0 / (2 * (1 - 0.9 * 0.5))
    assert rep.encoder.max_norm() == 1.0, "no rewards seen: the unit ball"
    rep.encoder.observe(torch.tensor([-1.0, 3.0]))
    assert rep.encoder.max_norm() == pytest.approx(half * 4)
    rep.encoder.observe(torch.tensor([0.0, 0.5]))
    assert rep.encoder.max_norm() == pytest.approx(half * 4)
    rep.losses(*(transitions()[:2]), torch.full((32,), 7.0), transitions()[3])
    assert rep.encoder.max_norm() == pytest.approx(half * 8)
    fixed = make(latent_space="ball", ball_radius=3.5)
    fixed.encoder.observe(torch.tensor([-1e6, 1e6]))
    assert fixed.encoder.max_norm() == 3.5


@pytest.mark.parametrize("space", get_args(LatentSpace))
@pytest.mark.parametrize("spread", [0.1, 1e4])
def test_no_latent_is_longer_than_the_longest(space: Any, spread: float) -> None:
    rep = make("dbc-det+pamd", spread, latent_space=space, transition={"project": True})
    obs, action, reward, next_obs = transitions()
    rep.losses(obs, action, reward, next_obs).total.backward()
    seen = rep.metric.inputs(rep.batch_latents(obs, action, reward, next_obs))  # type: ignore[union-attr]
    longest = rep.encoder.max_norm() * (1 + 1e-5)
    assert float(seen.z.detach().norm(dim=-1).max()) <= longest
    assert float(seen.next_mean.norm(dim=-1).max()) <= longest, "predictions live where latents do"
    assert (longest == float("inf")) == (space == "free")


@pytest.mark.parametrize("name", ["dbc", "dbc-det", "simsr"])
@pytest.mark.parametrize(("space", "projected"), [("ball", True), ("sphere", False), ("layernorm", False)])
def test_predictions_are_projected_in_the_ball_and_on_request(name: str, space: Any, projected: bool) -> None:
    assert make(name, latent_space=space).method.term("transition").project is projected  # type: ignore[union-attr]
    rep = make(name, 50.0, latent_space="sphere", transition={"project": True})
    predicted = rep.terms["transition"].prediction(rep.batch_latents(*transitions()))
    torch.testing.assert_close(predicted.mean.norm(dim=-1), torch.ones_like(predicted.mean[..., 0]))
    torch.testing.assert_close(predicted.member(None).sample(None).norm(dim=-1), torch.ones(32))


@pytest.mark.parametrize("name", ["dbc-det+pamd", "simsr+pamd", "mico+pamd", "dbc-normed", "dbc-det+l1"])
def test_in_the_ball_no_target_is_out_of_reach(name: str) -> None:
    """c_R = 1 and latents that fill the ball: c_R range + gamma * 2 radius = 2 radius."""
    rep = make(name, 1e6, latent_space="ball")
    batch = transitions(1000.0)
    rep.losses(*batch)
    rep.update_targets(), rep.update_targets()
    meters = read_meters(rep, *batch)
    assert meters["reach_missed"] == 0
    assert meters["reach_largest"] >= meters["reach_fixed_point"] * (1 - 1e-6)
    if "pamd" in name:
        assert meters["reach_largest"] == pytest.approx(meters["reach_fixed_point"], rel=1e-5), "and it is no larger"
        assert read_meters(make(name, 1e6, latent_space="sphere"), *batch)["reach_missed"] > 0.5


def test_the_radius_is_saved_copied_and_left_alone_by_meters() -> None:
    agent, other = (make_agent("dbc-det+pamd", latent_space="ball", seed=seed) for seed in (0, 1))
    for i in range(3):
        agent.update(make_batch(i))
    radius = agent.representation.encoder.max_norm()
    assert radius > 10
    assert agent.representation.target_encoders["ema"].max_norm() > 10
    other.load({name: tensor.clone() for name, tensor in agent.tensors().items()})
    assert other.representation.encoder.max_norm() == radius
    for one in (agent, other):
        one.update(make_batch(7))
    assert equal(agent, other), "a resumed agent goes on as if nothing had happened"
    before = copy.deepcopy(agent.tensors())
    batch = make_batch(8)
    read_meters(agent.representation, batch.obs, batch.action, 100 * batch.reward, batch.next_obs)
    assert all(torch.equal(before[name], tensor) for name, tensor in agent.tensors().items())


@pytest.mark.parametrize("learner", ["sac", "drqv2"])
def test_the_ball_serves_every_learner(learner: str) -> None:
    agent = make_agent("simsr+pamd", learner=learner, latent_space="ball")
    metrics = agent.update(make_batch())
    assert all(value.isfinite() for value in metrics.values())


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="requires projected predictions"):
        make(latent_space="ball", transition={"project": False})
    with pytest.raises(ConfigError, match="ball_radius must be a finite number above 0 or 'rewards', got 0"):
        make(ball_radius=0.0)
    with pytest.raises(ConfigError, match="ball_radius"):
        make(ball_radius="reward")
    method = pamd.method("simsr+pamd", latent_dim=D, latent_space="ball")
    with pytest.raises(ConfigError, match=r"fix its radius, for example .*ball_radius=10"):
        pamd.Representation(method, encoder=nn.Linear(5, D), action_dim=3, normalized=True)
    fixed = pamd.method("simsr+pamd", latent_dim=D, latent_space="ball", ball_radius=2.0)
    assert pamd.Representation(fixed, encoder=nn.Linear(5, D), action_dim=3, normalized=True).encoder.max_norm() == 2.0
