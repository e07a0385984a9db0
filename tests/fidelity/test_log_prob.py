"""The log-probability of a squashed action: exact, and as released."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.agent.batches import make_agent, make_batch
from tests.fidelity.difference import largest_difference

from pamd.latents import BatchLatents
from pamd.learners.base import Step
from pamd.learners.networks import LogProb, squashed_gaussian
from pamd.learners.sac import Sac
from pamd.types import Batch

B, A = 64, 3


def drawn(raw: float = 0.3) -> tuple[torch.Tensor, np.ndarray, np.ndarray, np.ndarray]:
    """The policy's output, and by the formulas: noise, log sigma, and the action before tanh."""
    mean = torch.linspace(-9, 9, B * A).view(B, A)
    output = torch.cat([mean, torch.full((B, A), raw)], -1)
    noise = torch.randn(B, A, generator=torch.Generator().manual_seed(1)).numpy()
    log_std = np.full((B, A), -10 + 12 * (math.tanh(raw) + 1) / 2)
    return output, noise, log_std, mean.numpy() + np.exp(log_std) * noise


def gaussian(noise: np.ndarray, log_std: np.ndarray) -> np.ndarray:
    return -(noise**2) / 2 - log_std - math.log(2 * math.pi) / 2


@pytest.mark.parametrize("rule", ["exact", "released"])
def test_log_probabilities_are_those_of_the_formula(rule: Any) -> None:
    # Near |a| = 1 the released form divides the rounding of a, 1e-16, by 1e-6. That bounds what can be compared.
    output, noise, log_std, u = drawn(raw=-0.2)
    action = np.tanh(u)
    slope = np.log(np.maximum(1 - action**2, 0) + 1e-6) if rule == "released" else -2 * np.log(np.cosh(u))
    formula = (gaussian(noise, log_std) - slope).sum(-1)
    found = squashed_gaussian(output, torch.Generator().manual_seed(1), rule)
    assert largest_difference("log-probability", found.log_prob, formula) < 2e-9
    assert largest_difference("log-probability", found.action, action) < 1e-14


@pytest.mark.parametrize(("u", "apart"), [(7.0, 0.26), (10.0, 4.8)])
def test_the_rules_part_for_large_actions(u: float, apart: float) -> None:
    # With raw = -30 the tanh saturates: sigma is exp(-10), and u is the mean but for that.
    output = torch.tensor([[u, -30.0]])
    rules: tuple[LogProb, ...] = ("exact", "released")
    exact, released = (
        float(squashed_gaussian(output, torch.Generator().manual_seed(0), rule).log_prob) for rule in rules
    )
    assert exact - released == pytest.approx(apart, abs=0.05)


def test_the_released_rule_has_a_floor_and_a_finite_gradient() -> None:
    output = torch.tensor([[400.0, -30.0]], requires_grad=True)
    found = squashed_gaussian(output, torch.Generator().manual_seed(0), "released")
    noise = float(torch.randn(1, 1, generator=torch.Generator().manual_seed(0)))
    plain = -(noise**2) / 2 + 10 - math.log(2 * math.pi) / 2
    assert float(found.log_prob.detach()) == pytest.approx(plain - math.log(1e-6), abs=1e-9)
    found.log_prob.sum().backward()
    assert output.grad is not None
    assert output.grad.isfinite().all()


def large_actions(rule: Any) -> tuple[Sac, BatchLatents, Batch]:
    """A learner whose actions are large, where the rules differ, and a batch for it."""
    agent = make_agent("none", options={"log_prob": rule})
    learner = agent.learner
    assert isinstance(learner, Sac)
    learner.actor.trunk[-1].bias.data += 3.0
    seen = make_batch()
    batch = Batch(seen.obs, seen.action.double(), seen.reward.double(), seen.next_obs, seen.not_done.double())
    return learner, agent.representation.latents_of(batch), batch


@pytest.mark.parametrize("rule", ["exact", "released"])
def test_actor_and_temperature_read_the_configured_rule(rule: Any) -> None:
    learner, latents, _ = large_actions(rule)
    features, z = latents.features(), latents.latent()
    drawn_again = squashed_gaussian(learner.actor(features), torch.Generator().manual_seed(2), rule)
    value = np.minimum(*(q.detach().numpy() for q in learner.critic(z, drawn_again.action)))
    log_prob = drawn_again.log_prob.detach().numpy()
    loss, found = learner.actor_loss(features, z, torch.Generator().manual_seed(2))
    assert largest_difference("log-probability", found, log_prob) < 1e-12
    assert largest_difference("log-probability", loss.value, np.mean(0.1 * log_prob - value)) < 1e-12
    temperature = learner.temperature_loss(found).value
    assert largest_difference("log-probability", temperature, np.mean(0.1 * (2 - log_prob))) < 1e-12


@pytest.mark.parametrize("rule", ["exact", "released"])
def test_the_critics_target_reads_the_configured_rule(rule: Any) -> None:
    learner, latents, batch = large_actions(rule)
    step, generator = Step(0, 1), torch.Generator().manual_seed(2)
    drawn_again = squashed_gaussian(learner.actor(latents.features("next_obs")), generator, rule)
    values = learner.target_critic(latents.latent("next_obs", "ema"), drawn_again.action)
    value = np.minimum(*(q.detach().numpy() for q in values)) - 0.1 * drawn_again.log_prob.detach().numpy()
    target = batch.reward.numpy() + 0.99 * batch.not_done.numpy() * value
    q1, q2 = (q.detach().numpy() for q in learner.critic(latents.z, batch.action))
    formula = np.mean((q1 - target) ** 2) + np.mean((q2 - target) ** 2)
    loss, _ = learner.critic_loss(batch, latents, step, torch.Generator().manual_seed(2))
    assert largest_difference("log-probability", loss, formula) < 1e-12
