"""Learners: their schedules, their returns, and one that a stranger adds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from tests.agent.batches import equal, make_agent, make_batch, updated
from torch import Tensor, nn

import pamd
from pamd.errors import ConfigError, UnknownNameError
from pamd.learners import LEARNERS, Learner, LearnerConfig, LearnerPart, Step
from pamd.learners.drqv2 import DrqV2, DrqV2Config
from pamd.learners.networks import Critic, bootstrapped, critic_loss
from pamd.optimization import adam, optimizer_step
from pamd.types import Loss, NStep


@pytest.mark.parametrize(
    ("ratio", "due"), [(1.0, [1, 1, 1, 1, 1, 1]), (0.5, [0, 1, 0, 1, 0, 1]), (2.0, [2] * 6), (0.2, [0, 0, 0, 0, 1, 0])]
)
def test_update_ratios_below_and_above_one(ratio: float, due: list[int]) -> None:
    config = LearnerConfig(random_decisions=10, updates_per_decision=ratio)
    assert [config.updates_due(10 + k) for k in range(6)] == due
    assert [config.updates_due(k) for k in range(10)] == [0] * 10


def test_first_updates_come_at_once() -> None:
    config = LearnerConfig(random_decisions=10, first_updates=7)
    assert [config.updates_due(k) for k in (9, 10, 11)] == [0, 7, 1]


def test_returns_of_one_and_of_several_steps() -> None:
    batch, value = make_batch(), torch.arange(16.0)
    torch.testing.assert_close(bootstrapped(batch, value, 0.9), batch.reward + 0.9 * value)
    n_step = NStep(reward=torch.full((16,), 2.0), next_obs=batch.next_obs, discount=torch.full((16,), 0.5))
    longer = type(batch)(**{**vars(batch), "n_step": n_step})
    torch.testing.assert_close(bootstrapped(longer, value, 0.9), 2 + value / 2)


@pytest.mark.parametrize("name", ["none", "simsr+pamd", "dbc-det+pamd", "mico"])
@pytest.mark.parametrize("schedule", ["sequential", "joint"])
def test_drqv2_carries_any_representation(name: str, schedule: str) -> None:
    """A whole state comes back and continues bit for bit."""
    straight = updated(name, learner="drqv2", schedule=schedule, count=4)
    saved = {k: v.clone() for k, v in updated(name, learner="drqv2", schedule=schedule, count=2).tensors().items()}
    resumed = make_agent(name, learner="drqv2", schedule=schedule, seed=5)
    resumed.load(saved)
    for i in (2, 3):
        resumed.update(make_batch(i))
    assert equal(straight, resumed)


@pytest.mark.parametrize("learner", ["sac", "drqv2"])
def test_layer_norm_stands_before_every_relu_of_actor_and_critic(learner: str) -> None:
    plain, normed = (make_agent("none", learner=learner, options={"layer_norm": on}) for on in (False, True))
    kinds = [[type(m).__name__ for m in agent.learner.critic.q1] for agent in (plain, normed)]
    assert kinds[0] == ["Linear", "ReLU", "Linear", "ReLU", "Linear"]
    assert kinds[1] == ["Linear", "LayerNorm", "ReLU", "Linear", "LayerNorm", "ReLU", "Linear"]
    assert [type(m).__name__ for m in normed.learner.actor.trunk] == kinds[1]
    before = normed.learner.critic.q1[1].weight.clone()
    normed.update(make_batch(0))
    assert not torch.equal(normed.learner.critic.q1[1].weight, before)


def test_drqv2_reads_the_online_trunk_through_a_target_head() -> None:
    agent = updated("none", learner="drqv2", count=3)
    learner = agent.learner
    assert isinstance(learner, DrqV2)
    assert "ema" not in agent.representation.target_encoders, "it needs no target encoder"
    online, slow = agent.representation.encoder.head_modules(), learner.target_head
    pairs = list(zip(online.parameters(), slow.parameters(), strict=True))
    assert all(not torch.equal(a, b) for a, b in pairs)
    before = [b.clone() for _, b in pairs]
    learner.update_targets(Step(0, 4))
    for (fast, moved), old in zip(pairs, before, strict=True):
        torch.testing.assert_close(moved, old.lerp(fast, 0.01))


def test_drqv2_noise_falls_linearly_and_actions_stay_in_bounds() -> None:
    agent = make_agent("none", learner="drqv2", options={"noise_decisions": 100})
    learner = agent.learner
    assert isinstance(learner, DrqV2)
    assert [learner.noise_at(Step(k, 0)) for k in (0, 50, 100, 500)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
    obs = make_batch().obs.numpy()
    explored = agent.act(obs, explore=True, decisions=0)
    assert abs(explored).max() <= 1
    assert abs(explored - agent.act(obs)).mean() > 0.3


def test_drqv2_policy_gradient_passes_the_bounds() -> None:
    """At a bound, where a plain clamp would stop it."""
    agent = make_agent("none", learner="drqv2")
    learner = agent.learner
    assert isinstance(learner, DrqV2)
    nn.init.constant_(learner.actor.trunk[-1].bias, 2.0)
    action = learner._smoothed(torch.zeros(4, learner.actor.head.in_features), Step(0, 1), agent.generator)
    (gradient,) = torch.autograd.grad(action.sum(), learner.actor.trunk[-1].bias)
    assert float(action.detach().max()) <= 1
    assert bool((gradient > 0).all())


def test_published_defaults_of_drqv2() -> None:
    config = DrqV2Config()
    assert (config.n_step, config.batch, config.learning_rate, config.critic_tau) == (3, 256, 1e-4, 0.01)
    assert (config.updates_per_decision, config.hidden, config.noise_clip) == (0.5, 1024, 0.3)
    assert config.augmentation.name == "random-shift"
    assert config.augmentation.options.pixels == 4
    assert DrqV2.latent_space == "tanh"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch": 0}, "batch must be a whole number of at least 1, got 0"),
        ({"gamma": 1.0}, "gamma must be a finite number of at least 0 and below 1, got 1.0"),
        ({"updates_per_decision": 0.0}, "updates_per_decision must be a finite number above 0"),
        ({"hiden": 3}, "Did you mean 'hidden'"),
        ({"augmentation": {"name": "shift"}}, "random-shift"),
        ({"augmentation": {"name": "random-shift", "options": {"pixel": 3}}}, "'pixels'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        LearnerPart("sac", options)


def test_wrong_learner_is_named() -> None:
    with pytest.raises(UnknownNameError, match="'drqv2'"):
        LearnerPart("drq2")


@dataclass(frozen=True)
class DdpgConfig(LearnerConfig):
    hidden: int = 32
    """Units of the hidden layers."""


class Ddpg(Learner[DdpgConfig]):
    """A learner in one class, as a stranger would write it."""

    Config = DdpgConfig

    def __init__(self, config: DdpgConfig, encoder: Any, action_dim: int) -> None:
        super().__init__(config, encoder, action_dim)
        self.critic = Critic(encoder.latent_dim, action_dim, config.hidden)
        self.actor = nn.Linear(encoder.feature_dim, action_dim)

    def make_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"actor": adam(self.actor.parameters(), self.config.learning_rate)}

    def critic_parameters(self) -> Iterable[nn.Parameter]:
        return self.critic.parameters()

    def act(self, features: Tensor, *, explore: bool, step: Step, generator: torch.Generator) -> Tensor:
        return torch.tanh(self.actor(features))

    def value(self, features: Tensor, z: Tensor) -> Tensor:
        return self.critic.min_q(z, torch.tanh(self.actor(features)))

    def critic_loss(self, batch: Any, latents: Any, step: Step, generator: torch.Generator) -> Any:
        with torch.no_grad():
            value = self.value(latents.features(latents.return_of), latents.latent("next_obs"))
        return critic_loss(self.critic, latents.z, batch.action, bootstrapped(batch, value, self.config.gamma))

    def update_policy(self, latents: Any, step: Step, generator: torch.Generator) -> list[Any]:
        loss = -self.value(latents.features(), latents.latent()).mean()
        actor = Loss(loss, {"actor_loss": loss.detach()})
        optimizer_step([actor], [self.optimizers["actor"]])
        return [actor]

    def update_targets(self, step: Step) -> None:
        pass


def test_a_stranger_adds_a_learner_and_trains_with_it(tmp_path: Any) -> None:
    LEARNERS.register("ddpg")(Ddpg)
    try:
        config = pamd.configure("toy", "ddpg:simsr+pamd", scale="smoke", decisions=60)
        assert config.label == "ddpg:simsr+pamd"
        run = pamd.train(config, tmp_path)
        assert pamd.load(run).act(pamd.load(run).make_env().reset()[0]).shape == (2,)
    finally:
        LEARNERS.unregister("ddpg")
