"""Operators that read more than latents: the agent gives them the learner's values, windows and predicted rewards."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from tests.agent.batches import ENCODER, make_agent, make_batch, make_config
from torch import nn

import pamd
from pamd.agent import AgentConfig
from pamd.errors import ConfigError, ShapeError
from pamd.learners import LEARNERS, Learner, LearnerPart
from pamd.methods import OperatorPart
from pamd.types import Batch, OperatorInputs, Window

NAMES = ("value", "advantage", "psm", "n-step", "state-action", "kernel")


def windowed(batch: Batch) -> Batch:
    generator = torch.Generator().manual_seed(1)
    obs = torch.randint(0, 256, batch.obs.shape, dtype=torch.uint8, generator=generator)
    reward = torch.rand(len(batch), 3, generator=generator)
    length = torch.full((len(batch),), 3)
    return dataclasses.replace(batch, window=Window(reward, length, obs, torch.ones(len(batch))))


@pytest.mark.parametrize(
    ("learner", "schedule", "isolate_metric"),
    [
        ("sac", "sequential", False),
        ("sac", "joint", False),
        ("sac", "sequential", True),
        ("drqv2", "sequential", False),
    ],
)
@pytest.mark.parametrize("name", ["value", "advantage", "psm", "n-step"])
def test_every_learner_trains_with_it(name: str, learner: str, schedule: Any, isolate_metric: bool) -> None:
    made = {
        "metric": {"operator": OperatorPart(name)},
        "learner": learner,
        "schedule": schedule,
        "isolate_metric": isolate_metric,
    }
    agent = make_agent("dbc-det", **made)
    before = [p.detach().clone() for p in agent.measured.encoder.parameters()]
    metrics = agent.update(windowed(make_batch()))
    assert torch.isfinite(metrics["metric_loss"])
    assert metrics["target_max"] > 0
    assert any(not torch.equal(p, q) for p, q in zip(before, agent.measured.encoder.parameters(), strict=True))


def test_values_are_the_learners_own() -> None:
    agent, batch = make_agent("dbc-det", metric={"operator": OperatorPart("advantage")}), make_batch()
    inputs, learner, encoder = agent.operator_inputs(batch), agent.learner, agent.representation.encoder
    with torch.no_grad():
        features = encoder.trunk(encoder.prepare(batch.obs))
        z = encoder.head(features)
        torch.testing.assert_close(inputs.value, learner.value(features, z))
        torch.testing.assert_close(inputs.action_value, torch.minimum(*learner.critic(z, batch.action)))  # type: ignore[operator]
    assert not inputs.value.requires_grad  # type: ignore[union-attr]
    own = agent.representation
    latents = own.batch_latents(batch.obs, batch.action, batch.reward, batch.next_obs, inputs=inputs)
    assert torch.equal(own.metric.inputs(latents).value, inputs.value)  # type: ignore[arg-type, union-attr]


@pytest.mark.parametrize("learner", ["sac", "drqv2"])
def test_the_action_of_the_policy_is_its_mode(learner: str) -> None:
    agent = make_agent("dbc-det", learner=learner, metric={"operator": OperatorPart("psm")})
    batch, before = make_batch(), agent.generator.get_state()
    action = agent.operator_inputs(batch).policy_action
    assert action is not None
    np.testing.assert_array_equal(action.numpy(), agent.act(batch.obs.numpy()))
    assert torch.equal(agent.generator.get_state(), before)  # other methods draw the same numbers
    latents = agent._latents(batch)
    target_mean = agent.representation.losses_of(latents)["metric"].metrics["target_mean"]
    again = agent.representation.batch_latents(
        batch.obs, batch.action, batch.reward, batch.next_obs, inputs=OperatorInputs(policy_action=action)
    )
    seen: Any = agent.representation.metric.inputs(again)  # type: ignore[union-attr]
    assert torch.equal(seen.policy_action, action)
    assert target_mean > 0


@pytest.mark.parametrize("name", ["value", "psm"])
def test_the_learner_computes_an_input_once_per_update(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, calls = make_agent("dbc-det", metric={"operator": OperatorPart(name)}), []
    method = {"value": "value", "psm": "act"}[name]
    compute = getattr(agent.learner, method)
    monkeypatch.setattr(agent.learner, method, lambda *a, **options: calls.append(name) or compute(*a, **options))
    agent.update(make_batch())
    assert len(calls) == 1


def test_rows_of_the_policy_are_checked() -> None:
    method = pamd.method("mico", latent_dim=4, metric={"operator": OperatorPart("psm")})
    bare = pamd.Representation(method, encoder=nn.Linear(3, 4), action_dim=2)
    obs, action, reward = torch.rand(8, 3), torch.rand(8, 2), torch.rand(8)
    with pytest.raises(ShapeError, match=r"policy_action must be \[8, A\], got \[8\]"):
        bare.losses(obs, action, reward, obs, inputs=OperatorInputs(policy_action=torch.rand(8)))


def test_an_agent_has_no_probabilities_of_actions() -> None:
    with pytest.raises(ConfigError, match="actions=continuous"):
        make_config("dbc-det", metric={"operator": OperatorPart("psm", {"actions": "discrete"})})


def test_the_ball_holds_the_targets_of_psm() -> None:
    """Its radius is half of the bound 2 c_R / (1 - gamma), whatever the rewards are."""
    method = pamd.method("dbc-det+l2", latent_space="ball", metric={"operator": OperatorPart("psm")})
    rep = pamd.Representation(method, encoder=nn.Linear(3, 50), action_dim=2)
    obs, inputs = torch.rand(8, 3), OperatorInputs(policy_action=torch.rand(8, 2))
    for scale in (1, 100):
        rep.losses(obs, torch.rand(8, 2), scale * torch.rand(8), obs, inputs=inputs)
        assert rep.encoder.max_norm() == pytest.approx(100)


ENDS = torch.tensor([0.0, 1.0] * 8)
"""Every second transition of a batch terminated."""


@pytest.mark.parametrize("isolate_metric", [False, True])
def test_a_terminated_episode_has_no_discounted_part_in_the_metric(isolate_metric: bool) -> None:
    """A pair of two ends has the reward gap as its target, and a reward weight of 0 leaves nothing of it."""
    over = dataclasses.replace(make_batch(), not_done=torch.zeros(16))
    metric = {"operator": OperatorPart("independent", {"c_R": 0.0})}
    agent = make_agent("mico", isolate_metric=isolate_metric, metric=metric)
    assert agent.update(over)["target_max"] == 0
    assert agent.operator_inputs(over).not_done is over.not_done
    ignored = make_agent("mico", isolate_metric=isolate_metric, metric={**metric, "terminations": False})
    assert ignored.update(over)["target_max"] > 0


@pytest.mark.parametrize("name", ["mico", "simsr+pamd", "dbc-det", "dbc", "rap"])
def test_the_released_code_ignores_terminations(name: str) -> None:
    over = dataclasses.replace(make_batch(), not_done=ENDS)

    def parameters(fidelity: str, batch: Batch, **fields: Any) -> torch.Tensor:
        agent = make_agent(name, fidelity, **fields)
        agent.update(batch)
        trained = agent.representation.parameters()
        return torch.cat([p.grad.flatten() for p in trained if p.grad is not None])

    # The critic reads terminations as well, so what differs must come from the metric alone.
    assert torch.equal(parameters("released", over), parameters("released", over, metric={"terminations": False}))
    assert not torch.equal(parameters("paper", over), parameters("paper", over, metric={"terminations": False}))


def test_a_batch_without_terminations_is_trained_on_to_the_last_bit_as_before() -> None:
    states = []
    for terminations in (True, False):
        agent = make_agent("simsr+pamd", metric={"terminations": terminations})
        for seed in range(3):
            agent.update(make_batch(seed))
        states.append(agent.tensors())
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def test_other_methods_ask_the_learner_for_nothing() -> None:
    batch = make_batch()
    assert make_agent("simsr+pamd").operator_inputs(batch) == OperatorInputs(not_done=batch.not_done)


def test_predicted_rewards_are_those_of_the_same_actions_in_every_state() -> None:
    agent = make_agent("dbc-det", metric={"operator": OperatorPart("state-action", {"actions": 3})})
    batch, own = make_batch(), agent.representation
    assert torch.isfinite(agent.update(batch)["metric_loss"])
    latents = own.latents_of(batch)
    rewards = own.metric.inputs(latents).action_reward  # type: ignore[union-attr]
    assert rewards.shape == (len(batch), 3)
    z = latents.latent("obs", "ema")
    for k in range(3):
        with torch.no_grad():
            following = own.terms["transition"].predict(latents, z, batch.action[k].expand(len(batch), -1)).mean[0]
            torch.testing.assert_close(rewards[:, k], own.terms["reward"].decode(following))


@pytest.mark.parametrize(
    ("name", "says"), [("value", r"V\(s\)"), ("advantage", r"Q\(s, a\)"), ("psm", r"pi\(s\)"), ("n-step", "window")]
)
def test_a_bare_representation_names_what_is_missing(name: str, says: str) -> None:
    method = pamd.method("mico", latent_dim=4, metric={"operator": OperatorPart(name)})
    bare = pamd.Representation(method, encoder=nn.Linear(3, 4), action_dim=2)
    obs, action, reward = torch.rand(8, 3), torch.rand(8, 2), torch.rand(8)
    with pytest.raises(ConfigError, match=f"reads .*{says}.*pass inputs=OperatorInputs"):
        bare.losses(obs, action, reward, obs)
    window = Window(torch.rand(8, 3), torch.full((8,), 3), obs, torch.ones(8))
    values = {"value": torch.rand(8), "action_value": torch.rand(8), "policy_action": torch.rand(8, 2)}
    given = OperatorInputs(**values, window=window)
    bare.losses(obs, action, reward, obs, inputs=given).total.backward()


@pytest.mark.parametrize(
    ("method", "operator", "says"),
    [
        ("mico", {"name": "state-action"}, "action_reward, which the term 'transition' predicts"),
        ("simsr", {"name": "state-action"}, r"--set method.reward=\{\}"),
        ("mico", {"name": "kernel", "options": {"next_latents": "model"}}, "next_sample, next_sample_other"),
        ("dbc-det+coordinate", {"name": "value"}, "operator 'value' compares scalars, but distance 'coordinate'"),
    ],
)
def test_what_a_method_cannot_give_is_refused(method: str, operator: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make_config(method, metric={"operator": OperatorPart(**operator)})


def test_an_isolated_metric_has_no_reward_decoder() -> None:
    with pytest.raises(ConfigError, match=r"--set method.reward=\{\}"):
        make_config("dbc-det", metric={"operator": OperatorPart("state-action")}, isolate_metric=True)


def test_a_learner_without_values_of_actions_is_refused_by_name() -> None:
    class Silent(LEARNERS.get("sac")):  # type: ignore[misc]
        action_value = Learner.action_value

    LEARNERS.register("silent")(Silent)
    try:
        for name in ("value", "advantage"):
            method = pamd.method("dbc-det", metric={"operator": OperatorPart(name)})
            if name == "value":
                AgentConfig(ENCODER, method, LearnerPart("silent"))
                continue
            with pytest.raises(ConfigError, match="learner 'silent' has no action values"):
                AgentConfig(ENCODER, method, LearnerPart("silent"))
    finally:
        LEARNERS.unregister("silent")


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_configured_by_the_operators_name(name: str) -> None:
    config = pamd.configure("toy", "dbc-det", scale="smoke", settings=[f"method.metric.operator.name={name}"])
    assert config.method.operator is not None
    assert config.method.operator.name == name
    assert config.method.window == (3 if name == "n-step" else 0)


def test_a_run_trains_on_windows_of_its_replay(tmp_path: Any) -> None:
    settings = ["method.metric.operator.name=n-step", "method.metric.operator.n=2"]
    config = pamd.configure("toy", "dbc-det", scale="smoke", decisions=60, settings=settings)
    run = pamd.train(config, tmp_path)
    rows = [line for line in (run / "train.jsonl").read_text().splitlines() if '"target_mean"' in line]
    assert rows
