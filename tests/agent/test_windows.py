"""Agents on methods that augment by themselves or read windows: curl, taco, mrq and spr."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.agent.batches import equal, make_agent, make_batch, with_windows

import pamd

NAMES = ["curl", "taco", "mrq", "spr"]


@pytest.mark.parametrize("learner", ["sac", "drqv2"])
@pytest.mark.parametrize("schedule", ["sequential", "joint"])
@pytest.mark.parametrize("name", NAMES)
def test_every_learner_trains_with_it(name: str, schedule: Any, learner: str) -> None:
    agent, other = (make_agent(name, schedule=schedule, learner=learner) for _ in range(2))
    before = {key: p.detach().clone() for key, p in agent.representation.named_parameters() if p.requires_grad}
    for _ in range(2):
        metrics = agent.update(with_windows(make_batch(), agent))
        other.update(with_windows(make_batch(), other))
    assert all(torch.isfinite(value) for value in metrics.values())
    assert any(key.startswith(name) for key in metrics)
    assert all(not torch.equal(before[key], p) for key, p in agent.representation.named_parameters() if key in before)
    assert equal(agent, other)


def test_an_agent_augments_every_observation_of_a_window_and_keeps_the_original() -> None:
    agent = make_agent("spr", learner="drqv2")
    batch = with_windows(make_batch(), agent)
    augmented = agent._augmented(batch)
    assert batch.window is not None
    assert augmented.window is not None
    before, after = batch.window.sequence, augmented.window.sequence
    assert before is not None
    assert after is not None
    assert after.shape == before.shape
    assert all(not torch.equal(before[:, k], after[:, k]) for k in range(before.shape[1]))
    assert augmented.original_obs is batch.obs
    assert not torch.equal(augmented.obs, batch.obs)
    assert make_agent("spr")._augmented(batch) is batch


def test_curl_augments_the_original_and_not_the_augmented_observations() -> None:
    agent = make_agent("curl", learner="drqv2")
    batch = agent._augmented(make_batch())
    latents, seen = agent._latents(batch), []

    def augment(obs: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        seen.append(obs)
        return obs

    latents.augmented(augment, "ema")
    assert seen == [batch.original_obs]


def test_a_metric_of_n_steps_reads_the_end_of_a_sequence() -> None:
    """Terms with the same number of steps share windows, even if only one of them reads all observations."""
    metric = {"operator": {"name": "n-step", "options": {"n": 5}}, "distance": "l2"}
    agent = make_agent("spr", metric=metric)
    assert (agent.config.method.window, agent.config.method.sequence) == (5, True)
    batch = with_windows(make_batch(), agent)
    assert torch.isfinite(agent.update(batch)["metric_loss"])
    latents = agent._latents(batch)
    ends = latents.sequence("ema")[torch.arange(len(batch)), batch.window.length - 1]  # type: ignore[union-attr]
    torch.testing.assert_close(latents.latent("window_obs", "ema"), ends)


@pytest.mark.parametrize("task", ["toy", "state:cheetah_run"])
@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_configured_by_the_methods_name(name: str, task: str) -> None:
    config = pamd.configure(task, name, scale="smoke")
    assert (config.method.window, config.method.sequence) == {
        "curl": (0, False),
        "taco": (3, False),
        "mrq": (5, True),
        "spr": (5, True),
    }[name]
