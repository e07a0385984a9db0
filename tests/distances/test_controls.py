"""The controls of PAMD: its isotropic point, one matrix for all pairs, and a head that is not trained."""

from __future__ import annotations

import math

import pytest
import torch

import pamd
from pamd.agent import Agent
from pamd.types import Batch

PREDICTED = ("pamd", "pamd-block", "pamd-lowrank", "pamd-scaled", "adaptive-diagonal")


def test_l2_unit_is_the_isotropic_form_and_l1_mean_the_mean_of_coordinates() -> None:
    z, z_prime = torch.randn(2, 9, 50).double()
    isotropic = pamd.distance("diagonal", latent_dim=50, root_epsilon=1e-20, trace_epsilon=1e-20).double()
    torch.testing.assert_close(pamd.distance("l2-unit", latent_dim=50)(z, z_prime), isotropic(z, z_prime))
    one, mean = (pamd.distance(name, latent_dim=50)(z, z_prime) for name in ("l1", "l1-mean"))
    torch.testing.assert_close(mean, one / 50)
    assert pamd.distance("l2-unit", latent_dim=50).max_value(1.0) == pytest.approx(2 / math.sqrt(50))


def test_mahalanobis_learns_one_full_matrix() -> None:
    """A diagonal cannot express this target, and one matrix for all pairs can."""
    torch.manual_seed(0)
    z, z_prime = torch.randn(2, 64, 3)
    turn = torch.linalg.qr(torch.randn(3, 3))[0]
    target = ((z - z_prime) @ turn * torch.tensor([0.9, 0.4, 0.1])).norm(dim=-1)
    residuals = {}
    for name in ("mahalanobis", "diagonal"):
        d = pamd.distance(name, latent_dim=3, trace_normalized=False)
        optimizer = torch.optim.Adam(d.parameters(), 0.03)
        for _ in range(400):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(d(z, z_prime), target)
            loss.backward()
            optimizer.step()
        residuals[name] = float(loss.detach())
        assert torch.equal(d.matrix(z, z_prime)[0], d.matrix(z, z_prime)[-1])
    assert residuals["mahalanobis"] < 1e-4 < 1e-3 < residuals["diagonal"]


@pytest.mark.parametrize("name", PREDICTED)
def test_a_frozen_head_passes_gradients_to_latents_and_keeps_none(name: str) -> None:
    d = pamd.distance(name, latent_dim=6, frozen=True)
    assert not any(p.requires_grad for p in d.net.parameters())
    z = torch.randn(5, 6, requires_grad=True)
    measured = d.measure(z, torch.randn(5, 6))
    (measured.value.sum() + measured.penalty).backward()
    assert z.grad is not None
    assert z.grad.any()
    assert all(p.grad is None for p in d.net.parameters())


@pytest.mark.parametrize("schedule", ["sequential", "joint"])
@pytest.mark.parametrize("method", ["dbc-det+pamd", "simsr+pamd"])
def test_updates_leave_a_frozen_head_as_it_was(method: str, schedule: str) -> None:
    config = pamd.configure(
        "state:cartpole_swingup", method, schedule=schedule, settings=["method.metric.distance.frozen=true"]
    )
    agent = Agent(config.agent, observation_shape=(5,), action_dim=1, seed=0)
    distance = agent.representation.distance
    assert distance is not None
    before = [p.clone() for p in distance.parameters()]
    encoder = [p.clone() for p in agent.representation.encoder.parameters()]
    draw = torch.Generator().manual_seed(0)
    obs, next_obs = torch.randn(2, 16, 5, generator=draw)
    batch = Batch(obs, torch.rand(16, 1, generator=draw), torch.rand(16, generator=draw), next_obs, torch.ones(16))
    for _ in range(2):
        agent.update(batch)
    assert all(torch.equal(a, b) for a, b in zip(before, distance.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(encoder, agent.representation.encoder.parameters(), strict=True))
    stepped = {id(p) for o in agent.optimizers.values() for group in o.param_groups for p in group["params"]}
    assert not stepped & {id(p) for p in distance.parameters()}


@pytest.mark.parametrize("method", ["dbc-det+l2-unit", "dbc-det+l1-mean", "dbc-det+mahalanobis", "simsr+mahalanobis"])
def test_the_controls_are_parts_of_methods(method: str) -> None:
    representation = pamd.Representation(method, encoder=torch.nn.Linear(5, 50), action_dim=1)
    assert representation.distance is not None
