"""Each loss term's gradient reaches the networks it must reach, and no others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.agent.batches import SMOKE, make_batch

from pamd.agent import Agent
from pamd.agent.actor import actor_loss
from pamd.agent.temperature import temperature_loss
from pamd.methods import method

PARTS = ("convolutions", "head", "critic", "actor", "transition", "reward_decoder", "distance", "log_temperature")
SLOW = ("target_encoder", "target_critic", "periodic_encoder", "target_distance")


def make_agent(name: str, fidelity: Any = "paper", **fields: Any) -> Agent:
    agent = Agent(method(name, fidelity, **fields), SMOKE, action_dim=2, seed=0)
    # Away from the start, where slow copies equal the online networks and much is zero by symmetry.
    for _ in range(3):
        agent.update(make_batch())
    for optimiser in agent.optimisers.values():
        optimiser.zero_grad()
    return agent


def reached(agent: Agent) -> set[str]:
    """The parts that have a gradient that is not zero."""
    nets = agent.nets
    groups = {"convolutions": nets.encoder.convolutions, "head": nets.encoder.head}
    groups |= {name: getattr(nets, name) for name in (*PARTS[2:-1], *SLOW)}
    found = set()
    for name, group in groups.items():
        if group is not None and any(p.grad is not None and p.grad.abs().sum() > 0 for p in group.parameters()):
            found.add(name)
    temperature = nets.log_temperature.grad
    return found | ({"log_temperature"} if temperature is not None and temperature != 0 else set())


ENCODER = {"convolutions", "head"}
TABLE = [
    ("critic", "sac", ENCODER | {"critic"}),
    ("critic", "simsr+pamd", ENCODER | {"critic"}),
    ("model", "deepmdp", ENCODER | {"transition", "reward_decoder"}),
    ("model", "dbc", ENCODER | {"transition", "reward_decoder"}),
    ("model", "dbc-det+pamd", ENCODER | {"transition", "reward_decoder"}),
    ("model", "simsr", ENCODER | {"transition"}),
    ("metric", "dbc", ENCODER),
    ("metric", "dbc-det", ENCODER),
    ("metric", "dbc-det+pamd", ENCODER | {"distance"}),
    ("metric", "mico", ENCODER),
    ("metric", "mico+pamd", ENCODER | {"distance"}),
    ("metric", "simsr", ENCODER),
    ("metric", "simsr+pamd", ENCODER | {"distance"}),
    ("metric", "simsr+mlp", ENCODER | {"distance"}),
    ("metric", "simsr+adaptive-diagonal", ENCODER | {"distance"}),
    ("actor", "simsr+pamd", {"actor"}),
    ("actor", "sac", {"actor"}),
    ("temperature", "sac", {"log_temperature"}),
]


@pytest.mark.parametrize("fidelity", ["paper", "released"])
@pytest.mark.parametrize(("term", "name", "expected"), TABLE, ids=lambda value: value if isinstance(value, str) else "")
def test_a_term_reaches_what_it_must_and_no_more(term: str, name: str, expected: set[str], fidelity: str) -> None:
    agent, batch = make_agent(name, fidelity), make_batch(1)
    encoded = agent.encode(batch)
    if term == "critic":
        agent._critic_term(batch, encoded).value.backward()
    elif term == "model":
        agent._model_term(batch, encoded)[0].value.backward()
    elif term == "metric":
        agent._metric_term(batch, encoded)[0].value.backward()
    else:
        _backward_of_actor_or_temperature(agent, encoded, term)
    assert reached(agent) == expected


def _backward_of_actor_or_temperature(agent: Agent, encoded: Any, term: str) -> None:
    nets = agent.nets
    features = encoded.fixed_features
    with torch.no_grad():
        z = nets.encoder.head(features)
    loss, log_prob = actor_loss(nets.actor, nets.critic, features, z, nets.log_temperature.exp(), agent.generator)
    if term == "actor":
        # The critic is on the way to the actor; that its weights are left alone is the step's doing.
        before = {name: p.clone() for name, p in nets.named_parameters()}
        agent._step([loss], "actor")
        changed = {name.split(".")[0] for name, p in nets.named_parameters() if not torch.equal(p, before[name])}
        assert changed == {"actor"}
    else:
        temperature_loss(nets.log_temperature, log_prob, -2.0).value.backward()


@pytest.mark.parametrize("schedule", ["sequential", "joint"])
@pytest.mark.parametrize("name", ["sac", "deepmdp", "dbc", "dbc-det+pamd", "mico", "simsr+pamd", "simsr+mlp"])
def test_an_update_moves_every_learned_part_and_slow_copies_only_follow(name: str, schedule: str) -> None:
    agent = make_agent(name, schedule=schedule)
    before = {key: p.clone() for key, p in agent.nets.named_parameters()}
    agent.update(make_batch(2))  # the fourth: actor and targets are due
    for key, parameter in agent.nets.named_parameters():
        part = key.split(".")[0]
        moved = not torch.equal(parameter, before[key])
        assert moved == (part != "periodic_encoder"), key
    for slow, fast, tau in (("target_encoder", "encoder", 0.005), ("target_critic", "critic", 0.005)):
        for key, parameter in getattr(agent.nets, slow).named_parameters():
            online = dict(getattr(agent.nets, fast).named_parameters())[key]
            torch.testing.assert_close(parameter, before[f"{slow}.{key}"].lerp(online, tau))


def test_the_periodic_encoder_is_copied_when_its_period_is_over() -> None:
    agent = make_agent("mico")
    online, slow = agent.nets.encoder.head.linear.weight, agent.nets.periodic_encoder.head.linear.weight
    agent.synchronise(7999)
    assert not torch.equal(online, slow)
    agent.synchronise(8000)
    assert torch.equal(online, slow)
