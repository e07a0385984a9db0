"""The effect of the metric on an SB3 algorithm."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.wrappers import FlattenObservation
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv
from tests.integrations.pictures import ALGORITHMS, METHOD, Pictures, make, options, same

import pamd
from pamd.errors import ConfigError
from pamd.integrations.sb3 import LatentCNN, LatentMLP, with_metric
from pamd.integrations.sb3.metric import Transitions
from pamd.integrations.sb3.policies import LATENT_POLICIES
from pamd.types import OperatorInputs

NAMES = list(ALGORITHMS)


@pytest.mark.parametrize("name", NAMES)
def test_with_weight_0_every_parameter_is_that_of_plain_sb3(name: str) -> None:
    check_weight_0(name, 16 if name == "PPO" else 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_with_weight_0_that_holds_for_200_updates(name: str) -> None:
    check_weight_0(name, 208)


def check_weight_0(name: str, steps: int) -> None:
    plain, ours = make(name, plain=True).learn(steps), make(name, weight=0.0).learn(steps)
    assert same(plain, ours)
    # PPO: two epochs of minibatches of 8; the others: one update a step after the first 8.
    assert int(ours.metric.representation.updates) == (steps // 16 * 4 if name == "PPO" else steps - 8)


@pytest.mark.parametrize("name", NAMES)
def test_with_a_weight_the_critics_encoder_learns_otherwise(name: str) -> None:
    plain, ours = make(name, plain=True).learn(32), make(name).learn(32)
    theirs, own = plain.policy.state_dict(), ours.policy.state_dict()
    shaped = {"DQN": "q_net.features_extractor", "PPO": "features_extractor"}.get(name, "critic.features_extractor")
    assert any(not torch.equal(theirs[key], own[key]) for key in own if key.startswith(shaped))


@pytest.mark.parametrize("policy", ["CnnPolicy", "LatentPolicy"])
@pytest.mark.parametrize("name", ["SAC", "DQN"])
def test_curl_contrasts_the_critics_latents_with_augmented_ones_of_the_target_network(name: str, policy: str) -> None:
    model = make(name, policy, method=pamd.method("curl", latent_dim=6))
    assert model.metric.representation.method.term("curl").query == "given"
    model.learn(12)
    assert 0 < model.logger.name_to_value["metric/curl_loss"] < 20
    assert int(model.metric.representation.updates) == 4


def stepped_gradients(model: Any) -> list[torch.Tensor]:
    """The gradients of the critic's extractor that one more update steps along."""
    found: list[torch.Tensor] = []
    extractor = model.metric.extractors.online

    def keep(*_: Any) -> None:
        found.extend(p.grad.clone() for p in extractor.parameters())

    hook = getattr(model, "critic", model.policy).optimizer.register_step_pre_hook(keep)
    np.random.seed(3), torch.manual_seed(3)  # noqa: NPY002
    model.train(gradient_steps=1, batch_size=8)
    hook.remove()
    return found


def critic_loss(policy: Any, batch: Any, gamma: float) -> torch.Tensor:
    """The critic's loss of a batch, as textbooks have it. The temperature is 0.1."""
    obs, action, next_obs, done, reward = batch[:5]
    if hasattr(policy, "q_net"):
        with torch.no_grad():
            target = reward + (1 - done) * gamma * policy.q_net_target(next_obs).amax(1, keepdim=True)
        return torch.nn.functional.smooth_l1_loss(policy.q_net(obs).gather(1, action), target)
    policy.actor.action_log_prob(obs)  # SAC draws the actor's action first
    with torch.no_grad():
        next_action, log_prob = policy.actor.action_log_prob(next_obs)
        value = torch.cat(policy.critic_target(next_obs, next_action), 1).amin(1, keepdim=True)
        target = reward + (1 - done) * gamma * (value - 0.1 * log_prob[:, None])
    return 0.5 * sum((q - target).square().mean() for q in policy.critic(obs, action))


def metric_loss(metric: Any, batch: Any) -> torch.Tensor:
    """The total loss of the method on a batch, by a pass of its own."""
    obs, action, next_obs, done, reward = batch[:5]
    rep, extract = metric.representation, metric.extractors.features
    features = metric.extractors.online(obs.float() / 255)

    def source(of: str, copy: str) -> torch.Tensor:
        return features if (of, copy) == ("obs", "online") else extract(copy, {"obs": obs, "next_obs": next_obs}[of])

    inputs = OperatorInputs(not_done=1 - done)
    latents = rep.batch_latents(obs, action, reward, next_obs, generator=metric.generator, inputs=inputs, source=source)
    return rep.losses_of(latents).total


@pytest.mark.parametrize("policy", ["CnnPolicy", "LatentPolicy"])
@pytest.mark.parametrize("name", ["SAC", "DQN"])
def test_the_encoders_gradient_is_the_sum_of_the_critics_and_the_metrics(name: str, policy: str) -> None:
    own = {"SAC": {"ent_coef": 0.1}, "DQN": {"max_grad_norm": 1e9}}[name]
    model = make(name, policy, weight=0.5, **own).learn(12)
    np.random.seed(3)  # noqa: NPY002
    batch = model.replay_buffer.sample(8)
    before, metric = copy.deepcopy((model.policy, model.metric))
    joint = stepped_gradients(model)
    torch.manual_seed(3)
    parameters = list(metric.extractors.online.parameters())
    critic_grad = torch.autograd.grad(critic_loss(before, batch, model.gamma), parameters)
    metric_grad = torch.autograd.grad(metric_loss(metric, batch), parameters)
    for together, critic, metric_part in zip(joint, critic_grad, metric_grad, strict=True):
        torch.testing.assert_close(together, critic + 0.5 * metric_part, rtol=1e-4, atol=1e-7)
    assert max(float(g.abs().max()) for g in metric_grad) > 1e-3


def test_dqn_clips_the_sum_of_both_gradients() -> None:
    model = make("DQN", weight=1000.0, max_grad_norm=0.01).learn(12)
    clipped = stepped_gradients(model)
    whole = torch.cat([p.grad.flatten() for p in model.q_net.parameters()]).norm()
    torch.testing.assert_close(whole, torch.tensor(0.01), rtol=1e-3, atol=0)
    assert torch.cat([g.flatten() for g in clipped]).norm() > 0.005  # of which most is the metric's


def test_the_target_networks_pass_gives_the_slow_next_latents() -> None:
    """Without extra passes, no encoder runs that plain SB3 does not run; with them, two more do."""

    def passes(**changes: Any) -> int:
        model, count = make("DQN", **changes).learn(12), [0]
        for net in (model.q_net, model.q_net_target):
            net.features_extractor.register_forward_hook(lambda *_: count.__setitem__(0, count[0] + 1))
        model.train(gradient_steps=1, batch_size=8)
        return count[0]

    assert passes(plain=True) == passes() == 2
    assert passes(extra_passes=True) == 4
    assert passes(method=pamd.method("mico", latent_dim=6)) == 3  # its right-hand side reads the states slowly


@pytest.mark.parametrize("name", ["SAC", "TD3"])
def test_the_actor_of_a_latent_policy_reads_the_critics_encoder_without_gradient(name: str) -> None:
    model = make(name, "LatentPolicy").learn(12)
    encoder = model.critic.features_extractor
    assert isinstance(encoder, LatentCNN)
    assert encoder.latent_space == "sphere"
    trained = {id(p) for group in model.actor.optimizer.param_groups for p in group["params"]}
    assert not trained & {id(p) for p in encoder.parameters()}
    obs = torch.zeros(2, 3, 12, 12, dtype=torch.uint8)
    reads = model.actor.extract_features(obs, model.actor.features_extractor)
    assert not reads.requires_grad
    assert torch.equal(reads, model.critic.extract_features(obs, encoder))
    torch.testing.assert_close(reads.norm(dim=1), torch.ones(2))
    if name == "TD3":
        slow = model.critic_target.features_extractor
        reads = model.actor_target.extract_features(obs, model.actor_target.features_extractor)
        assert torch.equal(reads, model.critic_target.extract_features(obs, slow))
        assert not torch.equal(reads, model.critic.extract_features(obs, encoder))


@pytest.mark.parametrize("name", NAMES)
def test_a_latent_policy_reads_vectors(name: str, tmp_path: Path) -> None:
    env = FlattenObservation(Pictures(name == "DQN"))
    model = make(name, "LatentPolicy", env=env).learn(16)
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model", env=env)
    encoder = loaded._extractors().online
    assert isinstance(encoder, LatentMLP)
    assert (encoder.features_dim, encoder.latent_space) == (6, "sphere")
    assert same(model, loaded)
    before = encoder.encoder.head.weight.clone()
    loaded.learn(16)
    assert not torch.equal(before, encoder.encoder.head.weight)


def test_a_latent_policy_serves_plain_sb3_too() -> None:
    kwargs = {"net_arch": [16], "features_extractor_kwargs": {"latent_dim": 6, "latent_space": "sphere"}}
    plain = SAC(LATENT_POLICIES["SAC"], Pictures(), **options("SAC", policy_kwargs=kwargs)).learn(24)
    assert same(plain, make("SAC", "LatentPolicy", weight=0.0).learn(24))


def test_timeouts_are_no_terminations_and_ppo_reads_whole_transitions() -> None:
    """PPO adds the value of the last state to the reward at a time limit, and keeps no next observations."""
    model = make("PPO", env=DummyVecEnv([Pictures, Pictures]), n_steps=24)
    seen: list[Transitions] = []
    sampled = model.metric.sampled
    model.metric.sampled = lambda batch: (seen.append(batch), sampled(batch))  # type: ignore[func-returns-value]
    model.learn(48)
    obs, action, reward, next_obs, not_done = (
        torch.cat([getattr(batch, name) for batch in seen])
        for name in ("obs", "action", "reward", "next_obs", "not_done")
    )
    columns, next_columns = (pictures[:, 0, 0].argmax(1) for pictures in (obs, next_obs))
    assert len(obs) == 2 * 48  # two epochs
    moved = action[:, 0].round().sign().long()
    assert torch.equal(next_columns, columns + moved)  # across the ends of episodes, too
    assert action.abs().max() <= 2  # what the environment got
    assert torch.equal(reward, ((next_columns >= 4) & (next_columns < 8)).float())
    assert torch.equal(not_done == 0, (next_columns == 0) | (next_columns == 11))
    ends = model.rollout_buffer.episode_starts.sum()
    assert ends > 0


def test_a_replayed_timeout_is_no_termination() -> None:
    model = make("SAC", learning_starts=60).learn(60)
    seen: list[Transitions] = []
    sampled = model.metric.sampled
    model.metric.sampled = lambda batch: (seen.append(batch), sampled(batch))  # type: ignore[func-returns-value]
    model.train(gradient_steps=1, batch_size=128)
    columns = torch.cat([batch.next_obs for batch in seen])[:, 0, 0].argmax(1)
    not_done = torch.cat([batch.not_done for batch in seen])
    assert torch.equal(not_done == 0, (columns == 0) | (columns == 11))


def test_the_life_of_an_sb3_model_goes_on_unchanged(tmp_path: Path) -> None:
    """Several environments, callbacks, evaluation, logger and schedules."""
    from stable_baselines3.common.logger import configure

    vec = make_vec_env(lambda: Pictures(discrete=True), n_envs=3, seed=1)
    model = make("DQN", env=vec, learning_rate=None)
    model.lr_schedule = lambda left: 1e-3 * left
    model.set_logger(configure(str(tmp_path), ["csv"]))
    evaluation = EvalCallback(make_vec_env(lambda: Pictures(discrete=True)), n_eval_episodes=1, eval_freq=10, verbose=0)
    try:
        model.learn(60, callback=evaluation)
    finally:
        model.logger.close()
    assert 0 <= model.metric.optimizer.param_groups[0]["lr"] < 1e-4  # it follows the schedule
    assert evaluation.last_mean_reward > -1
    header = (tmp_path / "progress.csv").read_text().splitlines()[0].split(",")
    assert {"metric/metric_loss", "metric/transition_loss", "metric/loss", "train/loss"} <= set(header)


def test_any_registered_method_and_a_subclass_serve() -> None:
    class OwnDQN(DQN):
        pass

    for method in ("mico+pamd", "dbc", "dbc-det", "deepmdp"):
        cls = with_metric(OwnDQN, pamd.method(method, latent_dim=6))
        model = cls("LatentPolicy", Pictures(discrete=True), **options("DQN")).learn(12)
        assert issubclass(cls, OwnDQN)
        assert np.isfinite(model.logger.name_to_value["metric/loss"])
    assert METHOD.name in (with_metric(SAC, METHOD).__doc__ or "")


def test_options_of_the_methods_parts() -> None:
    model = make("SAC", method=pamd.method("simsr+pamd", latent_dim=6, settings=("metric.distance.hidden=5",)))
    assert model.metric.representation.distance.config.hidden == 5


def test_the_ball_of_dbc_normed_grows_with_the_rewards() -> None:
    """Its radius is half of what the rewards seen so far require: 0.5 * 1 / (1 - 0.99) for rewards 0 and 1."""
    model = make("SAC", method=pamd.method("dbc-normed", latent_dim=6)).learn(60)
    encoder = model.metric.representation.encoder
    assert encoder.max_norm() == pytest.approx(50.0)
    assert model.metric.representation.target_encoders["ema"].max_norm() == pytest.approx(50.0)


def test_the_ball_of_latent_policy_has_the_radius_of_the_method() -> None:
    """Its encoder normalizes by itself, so the radius must be fixed, and the error shows how."""
    with pytest.raises(ConfigError, match=r"\"LatentPolicy\".*pamd.method\('dbc-normed', ball_radius=10.0\)"):
        make("SAC", "LatentPolicy", method=pamd.method("dbc-normed", latent_dim=6))
    model = make("SAC", "LatentPolicy", method=pamd.method("dbc-normed", latent_dim=6, ball_radius=10.0))
    radii = [
        extractor.space.max_norm()
        for extractor in (model.critic.features_extractor, model.metric.representation.encoder)
    ]
    assert radii == [10.0, 10.0]


def test_every_model_of_rap_has_the_weight_decay_of_the_method() -> None:
    metric = make("SAC", method=pamd.method("rap", latent_dim=6)).metric
    decay = {id(p): group["weight_decay"] for group in metric.optimizer.param_groups for p in group["params"]}
    for name in ("transition", "state-reward"):
        assert {decay[id(p)] for p in metric.representation.terms[name].parameters()} == {1e-7}
