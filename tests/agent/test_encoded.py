"""No encoder runs twice on the same weights and input."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from tests.agent.batches import make_batch

from pamd.agent import Agent
from pamd.methods import method, scale


def passes(name: str, schedule: Any, fidelity: Any = "paper") -> Counter[str]:
    """How many images went through the convolutions of each encoder in one update with actor and targets due."""
    size = scale("smoke")
    agent = Agent(method(name, fidelity, schedule=schedule), size, action_dim=2, seed=0)
    agent.update(make_batch())
    counted: Counter[str] = Counter()
    for label in ("encoder", "target_encoder", "periodic_encoder"):
        network = getattr(agent.nets, label)
        if network is not None:

            def count(module: Any, inputs: Any, output: torch.Tensor, label: str = label) -> None:
                counted[label + (" with gradient" if output.requires_grad else "")] += len(output) // size.batch

            network.convolutions.register_forward_hook(count)
    agent.update(make_batch())
    return counted


@pytest.mark.parametrize(
    ("name", "schedule", "expected"),
    [
        # One pass with gradient for all losses; next states once for the policy; the slow encoder as needed.
        ("sac", "joint", {"encoder with gradient": 1, "encoder": 1, "target_encoder": 1}),
        ("dbc-det+pamd", "joint", {"encoder with gradient": 1, "encoder": 1, "target_encoder": 2}),
        ("simsr+pamd", "joint", {"encoder with gradient": 1, "encoder": 1, "target_encoder": 2}),
        ("mico", "joint", {"encoder with gradient": 1, "encoder": 1, "target_encoder": 1, "periodic_encoder": 2}),
        # The encoder changes between the steps: states are encoded again for each, slow latents are kept.
        ("sac", "sequential", {"encoder with gradient": 1, "encoder": 2, "target_encoder": 1}),
        ("simsr+pamd", "sequential", {"encoder with gradient": 2, "encoder": 2, "target_encoder": 2}),
        ("mico", "sequential", {"encoder with gradient": 1, "encoder": 2, "target_encoder": 1, "periodic_encoder": 2}),
    ],
)
def test_passes_of_an_update(name: str, schedule: str, expected: dict[str, int]) -> None:
    assert passes(name, schedule) == expected


def test_released_dbc_encodes_next_states_online_after_the_critic_step() -> None:
    assert passes("dbc-det+pamd", "sequential", "released") == {
        "encoder with gradient": 2,
        "encoder": 3,  # next states for the policy, again for the latent model, states for the actor
        "target_encoder": 1,
    }
