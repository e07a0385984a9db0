"""The same seeds give the same parameters as version 0.1.0 gave, for every method at both fidelities.

reference/updates.json was written by version 0.1.0 in float64: after four updates, for each part of the agent, the sum
of its parameters, of their absolute values, and of their products with cos(0), cos(1), ...

Later versions changed some presets on purpose (docs/fidelity.md). The fields below give the values of 0.1.0 back.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.agent.batches import make_agent
from torch import nn

from pamd.agent import Agent
from pamd.learners.sac import Sac
from pamd.methods import method, side
from pamd.types import Batch

REFERENCE: dict[str, dict[str, list[float]]] = json.loads(
    (Path(__file__).parent / "reference" / "updates.json").read_text()
)
RELEASED_SAC: dict[str, dict[str, Any]] = {
    "dbc": {"first_updates": 1000},
    "independent": {"hidden": 1024, "critic_tau": 0.01, "temperature_learning_rate": 1e-4, "temperature_beta1": 0.5},
}
"""SAC at fidelity `released` in 0.1.0: exact log-probabilities, no offset of the schedule, no burst."""
QUICK = ("pamd", "mlp", "adaptive-diagonal")
"""Distances that `make test` looks at; the others are in `make test-slow`."""


def batch(number: int) -> Batch:
    draw = torch.Generator().manual_seed(1000 + number)
    obs, next_obs = (torch.randint(0, 256, (8, 9, 24, 24), generator=draw, dtype=torch.uint8) for _ in range(2))
    action, reward = torch.rand(8, 2, generator=draw) * 2 - 1, torch.rand(8, generator=draw)
    return Batch(obs, action, reward, next_obs, (torch.rand(8, generator=draw) > 0.1).double())


def old_fields(name: str, fidelity: Any) -> dict[str, Any]:
    """The fields of a method whose presets have changed, as 0.1.0 had them."""
    made = method(name, fidelity)
    fields: dict[str, Any] = {"targets": dataclasses.replace(made.targets, offset=0, period_offset=1000)}
    if made.term("transition") is not None:
        next_encoder = "ema" if fidelity == "paper" else "online"
        fields["transition"] = {"std": "tanh", "init": "orthogonal", "next_encoder": next_encoder}
    if made.term("reward") is not None:
        fields["reward"] = {"init": "orthogonal"}
    metric: dict[str, Any] = {"regression": "mse"} if name == "simsr+mlp" and fidelity == "paper" else {}
    if made.metric is not None:
        metric["terminations"] = False  # 0.1.0 ignored them at both fidelities, and a tenth of these batches has them.
    if made.distance is not None and hasattr(made.distance.options, "aux_pairs"):
        estimated = dataclasses.replace(made.distance.options, aux_pairs=16, aux_probes=4)
        metric["distance"] = dataclasses.replace(made.distance, options=estimated)
    if made.distance is not None and made.distance.name == "mico":
        exact = dataclasses.replace(made.distance.options, angle="exact")
        metric["distance"] = dataclasses.replace(made.distance, options=exact)
    return {**fields, "metric": metric} if metric else fields


def parts(agent: Agent) -> dict[str, nn.Module | None]:
    own, learner = agent.representation, agent.learner
    terms = dict(own.terms.items())
    assert isinstance(learner, Sac)
    return {
        "encoder": own.encoder,
        "critic": learner.critic,
        "actor": learner.actor,
        "transition": terms.get("transition"),
        "reward_decoder": terms.get("reward"),
        "distance": own.distance,
        "target_encoder": own.target_encoders["ema"],
        "target_critic": learner.target_critic,
        "target_distance": None if own.metric is None else own.metric.target_distance,
    }


def summary(module: nn.Module) -> list[float]:
    flat = torch.cat([p.detach().flatten() for p in module.parameters()])
    return [float(x.sum()) for x in (flat, flat.abs(), flat * torch.cos(torch.arange(len(flat)).double()))]


def cases() -> list[Any]:
    found = []
    for key in REFERENCE:
        name, _, schedule, *_ = key.split("|")
        distance = name.partition("+")[2]
        quick = not distance or (distance in QUICK and schedule == "sequential")
        found.append(pytest.param(key, marks=() if quick else pytest.mark.slow))
    return found


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("key", cases())
def test_parameters_are_those_of_the_reference(key: str) -> None:
    name, fidelity, schedule, *shifted = key.split("|")
    name = "none" if name == "sac" else name
    options: dict[str, Any] = dict(RELEASED_SAC[side(name)]) if fidelity == "released" else {}
    if shifted:
        options["augmentation"] = {"name": "random-shift"}
    agent = make_agent(name, fidelity, schedule=schedule, options=options, seed=3, **old_fields(name, fidelity))
    for number in range(4):
        agent.update(batch(number))
    expected = dict(REFERENCE[key])
    assert expected.pop("generator") == [int(agent.generator.get_state().long().sum())], "other random numbers"
    assert expected.pop("log_temperature") == pytest.approx([float(agent.learner.log_temperature.detach())], rel=1e-9)  # type: ignore[union-attr]
    found = parts(agent)
    for part, numbers in expected.items():
        module = found[part]
        assert module is not None
        assert summary(module) == pytest.approx(numbers, rel=1e-7, abs=1e-7), part
