"""Each loss term's gradient reaches the networks it must reach, and no others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.agent.batches import make_agent as plain_agent
from tests.agent.batches import make_batch

from pamd.agent import Agent
from pamd.learners import Step
from pamd.learners.sac import Sac
from pamd.optimization import optimizer_step


def make_agent(name: str, fidelity: Any = "paper", **fields: Any) -> Agent:
    agent = plain_agent(name, fidelity, **fields)
    # Away from the start, where target copies equal the online networks and much is zero by symmetry.
    for _ in range(3):
        agent.update(make_batch())
    for optimizer in agent.optimizers.values():
        optimizer.zero_grad()
    return agent


def parts(agent: Agent) -> dict[str, Any]:
    """The networks by name."""
    own, learner = agent.representation, agent.learner
    assert isinstance(learner, Sac)
    copies = {f"target {copy}": encoder for copy, encoder in own.target_encoders.items()}
    terms = dict(own.terms.items())
    return {
        "trunk": own.encoder.network.layers,
        "head": own.encoder.head_modules(),
        "critic": learner.critic,
        "actor": learner.actor,
        "transition": terms.get("transition"),
        "reward": terms.get("reward"),
        "distance": own.distance,
        "target_critic": learner.target_critic,
        "target_distance": None if own.metric is None else own.metric.target_distance,
        **copies,
    }


def reached(agent: Agent) -> set[str]:
    """The parts that have a gradient that is not zero."""
    found = set()
    for name, group in parts(agent).items():
        if group is not None and any(p.grad is not None and p.grad.abs().sum() > 0 for p in group.parameters()):
            found.add(name)
    temperature = agent.learner.log_temperature.grad  # type: ignore[union-attr]
    return found | ({"log_temperature"} if temperature is not None and temperature != 0 else set())


ENCODER = {"trunk", "head"}
TABLE = [
    ("critic", "none", ENCODER | {"critic"}),
    ("critic", "simsr+pamd", ENCODER | {"critic"}),
    ("model", "deepmdp", ENCODER | {"transition", "reward"}),
    ("model", "dbc", ENCODER | {"transition", "reward"}),
    ("model", "dbc-det+pamd", ENCODER | {"transition", "reward"}),
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
    ("actor", "none", {"actor"}),
    ("temperature", "none", {"log_temperature"}),
]


@pytest.mark.parametrize("fidelity", ["paper", "released"])
@pytest.mark.parametrize(("term", "name", "expected"), TABLE, ids=lambda value: value if isinstance(value, str) else "")
def test_a_term_reaches_what_it_must_and_no_more(term: str, name: str, expected: set[str], fidelity: str) -> None:
    agent, batch = make_agent(name, fidelity), make_batch(1)
    own = agent.representation
    latents = own.latents_of(batch, generator=agent.generator)
    if term == "critic":
        agent.learner.critic_loss(batch, latents, Step(0, 1), agent.generator).value.backward()
    elif term == "model":
        own.losses_of(latents, [name for name in own.terms if name != "metric"]).total.backward()
    elif term == "metric":
        own.losses_of(latents, ["metric"]).total.backward()
    else:
        _backward_of_actor_or_temperature(agent, latents, term)
    assert reached(agent) == expected


def _backward_of_actor_or_temperature(agent: Agent, latents: Any, term: str) -> None:
    learner, nets = agent.learner, agent.nets
    assert isinstance(learner, Sac)
    loss, log_prob = learner.actor_loss(latents.features(), latents.latent(), agent.generator)
    if term == "actor":
        # The critic is on the way to the actor. The step leaves its weights alone.
        before = {name: p.clone() for name, p in nets.named_parameters()}
        optimizer_step([loss], [agent.optimizers["actor"]])
        changed = {name.split(".")[1] for name, p in nets.named_parameters() if not torch.equal(p, before[name])}
        assert changed == {"actor"}
    else:
        learner.temperature_loss(log_prob).value.backward()


@pytest.mark.parametrize("schedule", ["sequential", "joint"])
@pytest.mark.parametrize("name", ["none", "deepmdp", "dbc", "dbc-det+pamd", "mico", "simsr+pamd", "simsr+mlp"])
def test_an_update_moves_every_learned_part_and_target_copies_move_toward_them(name: str, schedule: str) -> None:
    agent = make_agent(name, schedule=schedule)
    before = {key: p.clone() for key, p in agent.nets.named_parameters()}
    agent.update(make_batch(2))  # the fourth: actor and targets are due
    for key, parameter in agent.nets.named_parameters():
        moved = not torch.equal(parameter, before[key])
        assert moved == ("target_encoders.periodic" not in key), key
    copies = [
        ("representation.target_encoders.ema", "representation.encoder"),
        ("learner.target_critic", "learner.critic"),
    ]
    now = dict(agent.nets.named_parameters())
    for slow, fast in copies:
        for key, parameter in now.items():
            if key.startswith(slow):
                torch.testing.assert_close(parameter, before[key].lerp(now[fast + key[len(slow) :]], 0.005))


def test_the_periodic_encoder_is_copied_when_its_period_is_over() -> None:
    agent = make_agent("mico")
    own = agent.representation
    online, slow = (e.network.head.weight for e in (own.encoder, own.target_encoders["periodic"]))
    own.updates.fill_(6998)  # with the offset of 1000: two updates before the period is over
    own.update_targets()
    assert not torch.equal(online, slow)
    own.update_targets()
    assert torch.equal(online, slow)
