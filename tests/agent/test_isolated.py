"""The isolated metric: a second encoder that the metric loss alone trains, beside an agent that never sees it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.agent.batches import equal, make_agent, make_batch, updated
from tests.representation.test_meters import meters_of

from pamd.agent import Agent
from pamd.errors import ConfigError

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
        agent = make_agent(name, schedule=schedule, isolate_metric=True, metric={"weight": weight})
        before = {key: value.clone() for key, value in agent.nets.state_dict().items()}
        for i in range(4):
            agent.update(make_batch(i))
        results.append((agent, moved(agent, before)))
    (learned, changed), (idle, _) = results
    for key, value in learned.nets.state_dict().items():
        if not key.startswith("isolated."):
            torch.testing.assert_close(value, idle.nets.state_dict()[key], rtol=0, atol=0, msg=key)
    own = learned.isolated
    assert own is not None
    assert learned.representation.distance is None
    assert any(key.startswith("isolated.encoder.network.layers") for key in changed)
    if "ema" in own.target_encoders:
        assert any(key.startswith("isolated.target_encoders.ema") for key in changed)
    for name, term in own.terms.items():
        if list(term.parameters()):
            assert any(key.startswith(f"isolated.terms.{name}") for key in changed)


def test_its_latent_model_does_not_shape_the_encoder() -> None:
    """Whatever the transition weight, the isolated encoder takes the same steps."""
    ends = []
    for weight in (1.0, 100.0):
        agent = updated("simsr+pamd", count=1, isolate_metric=True, transition={"weight": weight})
        assert agent.isolated is not None
        ends.append([p.clone() for p in agent.isolated.encoder.parameters()])
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
    meters = meters_of(agent, make_batch(8))
    assert meters["gradient_encoder"] > 0


@pytest.mark.parametrize("name", ["none", "deepmdp"])
def test_without_a_metric_there_is_nothing_to_isolate(name: str) -> None:
    with pytest.raises(ConfigError, match="isolate_metric requires a metric loss"):
        make_agent(name, isolate_metric=True)
