"""No encoder runs twice on the same weights and input."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from tests.agent.batches import BATCH, make_agent, make_batch, with_windows


def passes(name: str, schedule: Any, fidelity: Any = "paper", learner: str = "sac") -> Counter[str]:
    """How many images went through the convolutions of each encoder in one update with actor and targets due."""
    agent = make_agent(name, fidelity, schedule=schedule, learner=learner)
    batch = with_windows(make_batch(), agent)
    agent.update(batch)
    counted: Counter[str] = Counter()
    encoders = {"encoder": agent.representation.encoder, **dict(agent.representation.target_encoders.items())}
    for label, encoder in encoders.items():
        plain = encoder.network.trunk

        def count(obs: torch.Tensor, label: str = label, plain: Any = plain) -> torch.Tensor:
            output: torch.Tensor = plain(obs)
            counted[label + (" with gradient" if output.requires_grad else "")] += len(output) // BATCH
            return output

        encoder.network.trunk = count
    agent.update(batch)
    return counted


@pytest.mark.parametrize(
    ("name", "schedule", "expected"),
    [
        # One pass with gradient for all losses; next states once for the policy; target copies as needed.
        ("none", "joint", {"encoder with gradient": 1, "encoder": 1, "ema": 1}),
        ("dbc-det+pamd", "joint", {"encoder with gradient": 1, "encoder": 1, "ema": 2}),
        ("simsr+pamd", "joint", {"encoder with gradient": 1, "encoder": 1, "ema": 2}),
        ("mico", "joint", {"encoder with gradient": 1, "encoder": 1, "ema": 1, "periodic": 2}),
        # The encoder changes between the steps: states are encoded again for each, target latents are kept.
        ("none", "sequential", {"encoder with gradient": 1, "encoder": 2, "ema": 1}),
        # The transition of the second step predicts next latents of the encoder as it stands: one pass more.
        ("simsr+pamd", "sequential", {"encoder with gradient": 2, "encoder": 3, "ema": 2}),
        ("mico", "sequential", {"encoder with gradient": 1, "encoder": 2, "ema": 1, "periodic": 2}),
        # SAC does not augment here, so both augmentations of CURL cost a pass.
        ("curl", "joint", {"encoder with gradient": 2, "encoder": 1, "ema": 2}),
        ("taco", "joint", {"encoder with gradient": 2, "encoder": 2, "ema": 2}),
        # Five states after the first: SPR shares the next state with the critic, MR.Q has another copy.
        ("spr", "joint", {"encoder with gradient": 1, "encoder": 1, "ema": 5}),
        ("mrq", "joint", {"encoder with gradient": 1, "encoder": 1, "ema": 1, "periodic": 5}),
    ],
)
def test_passes_of_an_update(name: str, schedule: str, expected: dict[str, int]) -> None:
    assert passes(name, schedule) == expected


def test_an_agent_that_augments_has_already_encoded_the_queries_of_curl() -> None:
    assert passes("curl", "joint", learner="drqv2") == {"encoder with gradient": 1, "encoder": 1, "ema": 1}


def test_released_dbc_encodes_next_states_online_after_the_critic_step() -> None:
    assert passes("dbc-det+pamd", "sequential", "released") == {
        "encoder with gradient": 2,
        "encoder": 3,  # next states for the policy, again for the latent model, states for the actor
        "ema": 1,
    }
