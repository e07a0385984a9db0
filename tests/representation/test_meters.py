"""Meters: closed forms, bounds that hold, and an agent left as it was."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from tests.agent.batches import equal, make_agent, make_batch, updated

from pamd.agent import Agent
from pamd.methods import OperatorPart
from pamd.representation.meters import effective_rank, read_meters
from pamd.runs.logs import meter_warnings
from pamd.types import Batch


def meters_of(agent: Agent, batch: Batch) -> dict[str, float]:
    return read_meters(
        agent.measured, batch.obs, batch.action, batch.reward, batch.next_obs, seed=agent.updates, learning_rate=1e-3
    )


def test_effective_rank_has_its_closed_forms() -> None:
    d = 6
    isotropic = torch.cat([torch.eye(d), -torch.eye(d)])
    assert effective_rank(isotropic) == pytest.approx(d)
    line = torch.linspace(-1, 1, 9)[:, None] * torch.ones(d)
    assert effective_rank(line) == pytest.approx(1)
    assert effective_rank(5 + 3 * line) == pytest.approx(1), "neither place nor size counts"
    assert effective_rank(torch.ones(9, d)) == 0


@pytest.mark.parametrize("name", ["none", "deepmdp", "dbc", "dbc-det+pamd", "mico", "simsr", "simsr+mlp", "simsr+pamd"])
def test_reading_changes_nothing(name: str) -> None:
    read, left = updated(name), updated(name)
    meters = meters_of(read, make_batch(9))
    assert equal(read, left)
    assert all(torch.isfinite(torch.tensor(value)) for value in meters.values())
    read.update(make_batch(10))
    left.update(make_batch(10))
    assert equal(read, left)
    assert meters_of(read, make_batch(9)) == meters_of(left, make_batch(9))


def test_which_meters_there_are_follows_from_the_method() -> None:
    latents = {"effective_rank"}
    loss = {"gradient_encoder", "reach_fixed_point"}
    bounded = {"reach_largest", "reach_missed"}
    learned = {"gradient_head", "probe_reduction"}
    assert meters_of(updated("none"), make_batch()).keys() == latents
    assert meters_of(updated("dbc-det"), make_batch()).keys() == latents | loss | bounded
    assert meters_of(updated("simsr+pamd"), make_batch()).keys() == latents | loss | bounded | learned
    assert meters_of(updated("simsr+mlp"), make_batch()).keys() == latents | loss | learned


@pytest.mark.parametrize("name", ["dbc-det", "simsr"])
def test_no_latent_is_longer_than_the_longest(name: str) -> None:
    agent = updated(name, count=1)
    encoder = agent.representation.encoder
    norm = encoder.space.norm
    if norm is not None:
        torch.nn.init.normal_(norm.weight, generator=torch.Generator().manual_seed(0))
        torch.nn.init.normal_(norm.bias, generator=torch.Generator().manual_seed(1))
    z = encoder(make_batch(3).obs).detach()
    assert float(z.norm(dim=-1).max()) <= encoder.max_norm() * (1 + 1e-5)


def test_targets_out_of_reach_are_counted_and_c_r_is_named() -> None:
    batch = make_batch(0)
    far = dataclasses.replace(batch, reward=1000 * batch.reward)
    meters = meters_of(updated("simsr+pamd"), far)
    assert meters["reach_largest"] == pytest.approx(2, rel=1e-3)
    assert meters["reach_missed"] > 0.8
    assert meters["reach_fixed_point"] == pytest.approx(float(far.reward.max() - far.reward.min()) / 0.01, rel=1e-4)
    (warning,) = meter_warnings(meters)
    assert "c_R" in warning
    assert "method.metric.operator.c_R" in warning
    near = OperatorPart("independent", {"next_latents": "model", "c_R": "1-gamma"})
    agent = make_agent("simsr+pamd", metric={"operator": near})
    assert meters_of(agent, batch)["reach_missed"] == 0
    assert meter_warnings(meters_of(agent, batch)) == []


def test_no_reward_weight_is_advised_if_rewards_are_not_the_reason() -> None:
    """The latent model of RAP may predict latents longer than any state's, and its distance squares their length."""
    agent, batch = updated("rap", count=1), make_batch(0)
    model = agent.representation.terms["transition"]
    (last,) = list(model.modules())[-1:]
    torch.nn.init.constant_(last.bias, 9.0)
    meters = meters_of(agent, batch)
    assert meters["reach_missed"] > 0.5
    (warning,) = meter_warnings(meters)
    assert "c_R" not in warning
    assert "ball" not in warning
    assert "the latent model predicts outside of the latent space" in warning


def test_collapsed_latents_raise_the_alarm() -> None:
    agent = updated("dbc-det+pamd", count=1)
    torch.nn.init.zeros_(agent.representation.encoder.network.head.weight)
    (warning,) = meter_warnings(meters_of(agent, make_batch()))
    assert warning.startswith("collapse:")


def test_the_probe_tells_a_head_that_absorbs_from_one_that_cannot() -> None:
    """`mlp` fits any values on fixed latents; the global diagonal has d numbers for all pairs."""
    batch = make_batch(1)
    reduction = {
        name: meters_of(updated(name, count=2), batch)["probe_reduction"] for name in ("simsr+mlp", "simsr+diagonal")
    }
    assert reduction["simsr+mlp"] > 0.5
    assert reduction["simsr+mlp"] > reduction["simsr+diagonal"] + 0.2
