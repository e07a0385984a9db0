"""The isolated metric: a second encoder that the metric loss alone trains, beside an agent that never sees it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.agent.batches import make_batch
from tests.agent.test_agent import equal, updated

from pamd.agent import Agent
from pamd.agent.meters import read_meters
from pamd.errors import ConfigError
from pamd.methods import method, scale

NAMES = ["dbc", "dbc-det+pamd", "mico", "simsr+pamd"]


def moved(agent: Agent, before: dict[str, torch.Tensor]) -> set[str]:
    """The parts whose weights have changed."""
    return {name for name, value in agent.nets.state_dict().items() if not torch.equal(value, before[name])}


@pytest.mark.parametrize("schedule", ["sequential", "joint"])
@pytest.mark.parametrize("name", NAMES)
def test_the_metric_trains_its_own_encoder_and_nothing_of_the_agents(name: str, schedule: Any) -> None:
    """With a metric loss of weight zero the agent's own side must come out the same."""
    results = []
    for weight in (1.0, 0.0):
        plain = method(name, schedule=schedule)
        objective = type(plain.objective)(**{**vars(plain.objective), "weight": weight})
        made = method(name, schedule=schedule, isolate_metric=True, objective=objective)
        agent = Agent(made, scale("smoke"), action_dim=2, seed=0)
        before = {key: value.clone() for key, value in agent.nets.state_dict().items()}
        for i in range(4):
            agent.update(make_batch(i))
        results.append((agent, moved(agent, before)))
    (learned, changed), (idle, _) = results
    for key, value in learned.nets.state_dict().items():
        if not key.startswith(("isolated.", "distance.")):
            torch.testing.assert_close(value, idle.nets.state_dict()[key], rtol=0, atol=0, msg=key)
    assert any(key.startswith("isolated.encoder.convolutions") for key in changed)
    assert any(key.startswith("isolated.target_encoder") for key in changed)
    own = learned.nets.isolated
    assert own is not None
    if own.transition is not None:
        assert any(key.startswith("isolated.transition") for key in changed)
    if learned.nets.distance is not None and list(learned.nets.distance.parameters()):
        assert any(key.startswith("distance.") for key in changed)


def test_its_latent_model_has_no_say_in_the_encoder() -> None:
    """Whatever the transition weight, the isolated encoder takes the same steps."""
    ends = []
    for weight in (1.0, 100.0):
        agent = updated("simsr+pamd", count=1, isolate_metric=True, transition_weight=weight)
        assert agent.nets.isolated is not None
        ends.append([p.clone() for p in agent.nets.isolated.encoder.parameters()])
    for one, other in zip(*ends, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_state_and_meters(name: str) -> None:
    agent, other = updated(name, isolate_metric=True), updated(name, seed=1, isolate_metric=True)
    other.load(agent.tensors())
    assert equal(agent, other)
    agent.update(make_batch(7))
    other.update(make_batch(7))
    assert equal(agent, other)
    meters = read_meters(agent, make_batch(8))
    assert meters["gradient_encoder"] > 0


@pytest.mark.parametrize("name", ["sac", "deepmdp"])
def test_without_a_metric_there_is_nothing_to_isolate(name: str) -> None:
    with pytest.raises(ConfigError, match="isolate_metric needs a metric loss"):
        method(name, isolate_metric=True)
