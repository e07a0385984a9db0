"""The off-policy wrapper around Tianshou's own algorithms."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

import pamd
from pamd.errors import ConfigError
from pamd.settings import override

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")]
pytest.importorskip("tianshou")

from tianshou.algorithm import DQN, SAC, TD3  # noqa: E402
from tianshou.algorithm.algorithm_base import policy_within_training_step  # noqa: E402
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy  # noqa: E402
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy  # noqa: E402
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy, Reinforce  # noqa: E402
from tianshou.algorithm.modelfree.sac import SACPolicy  # noqa: E402
from tianshou.algorithm.optim import AdamOptimizerFactory  # noqa: E402
from tianshou.data import Batch, ReplayBuffer  # noqa: E402
from tianshou.utils.net.continuous import ContinuousActorDeterministic, ContinuousActorProbabilistic  # noqa: E402
from tianshou.utils.net.discrete import DiscreteActor  # noqa: E402

from pamd.integrations.tianshou import LatentNet, MetricOffPolicyWrapper  # noqa: E402

O, D, A = 4, 6, 3  # noqa: E741
METHOD = pamd.method("simsr+pamd", transition={"members": 2}, latent_dim=D)
DISCRETE, BOX = spaces.Discrete(A), spaces.Box(-1, 1, (A,), np.float32)
ADAM = AdamOptimizerFactory(lr=1e-3)


def make_rep(method: Any = METHOD, action_dim: int = A) -> pamd.Representation:
    torch.manual_seed(0)
    return pamd.Representation(method, encoder=nn.Linear(O, D), action_dim=action_dim)


class Critic(nn.Module):
    """Q(z, a) of the shared encoder."""

    def __init__(self, rep: pamd.Representation) -> None:
        super().__init__()
        self.latent, self.layer = LatentNet(rep), nn.Linear(D + A, 1)

    def forward(self, obs: Any, act: Any = None, info: Any = None) -> Tensor:
        z, _ = self.latent(obs)
        return self.layer(torch.cat([z, torch.as_tensor(act, dtype=torch.float32)], -1))


def make_dqn(rep: pamd.Representation, space: Any = DISCRETE, **options: Any) -> DQN:
    torch.manual_seed(1)
    net = DiscreteActor(preprocess_net=LatentNet(rep), action_shape=A, softmax_output=False)
    policy = DiscreteQLearningPolicy(model=net, action_space=space)
    return DQN(policy=policy, optim=ADAM, target_update_freq=10, **options)


def make_sac(rep: pamd.Representation, *, actor_gradient: bool = False, second: bool = True) -> SAC:
    torch.manual_seed(1)
    actor = ContinuousActorProbabilistic(
        preprocess_net=LatentNet(rep, gradient=actor_gradient), action_shape=(A,), unbounded=True
    )
    return SAC(
        policy=SACPolicy(actor=actor, action_space=BOX),
        policy_optim=ADAM,
        critic=Critic(rep),
        critic_optim=ADAM,
        critic2=Critic(rep) if second else None,
        critic2_optim=ADAM,
    )


def make_td3(rep: pamd.Representation) -> TD3:
    torch.manual_seed(1)
    actor = ContinuousActorDeterministic(preprocess_net=LatentNet(rep, gradient=False), action_shape=(A,))
    policy = ContinuousDeterministicPolicy(actor=actor, action_space=BOX)
    options: Any = {"policy_optim": ADAM, "critic_optim": ADAM, "critic2_optim": ADAM, "update_actor_freq": 1}
    return TD3(policy=policy, critic=Critic(rep), critic2=Critic(rep), **options)


def wrap(algorithm: Any, rep: pamd.Representation) -> MetricOffPolicyWrapper:
    generator = torch.Generator().manual_seed(2)
    return MetricOffPolicyWrapper(wrapped_algorithm=algorithm, representation=rep, optim=ADAM, generator=generator)


def replay(discrete: bool) -> ReplayBuffer:
    """Episodes of four steps; every second one is cut off by a time limit."""
    rng, buffer = np.random.default_rng(0), ReplayBuffer(40)
    for step in range(40):
        end, limit = step % 4 == 3, step % 8 == 7
        act = int(rng.integers(A)) if discrete else rng.uniform(-1, 1, A).astype(np.float32)
        values = {"obs": rng.normal(size=O), "obs_next": rng.normal(size=O), "act": act, "rew": rng.normal()}
        buffer.add(Batch(**values, terminated=end and not limit, truncated=end and limit, info={}))
    return buffer


def update(algorithm: Any, discrete: bool, count: int = 1) -> Any:
    np.random.seed(5)  # noqa: NPY002  Tianshou samples from the global generator.
    torch.manual_seed(5)
    buffer = replay(discrete)
    with policy_within_training_step(algorithm.policy):
        for _ in range(count):
            stats = algorithm.update(buffer, 16)
    return stats


def test_one_update_is_the_algorithms_and_then_a_step_on_the_representations_loss() -> None:
    """By hand: plain DQN updates; then Adam steps on the total loss of the same transitions."""
    rep, other = make_rep(), make_rep()
    wrapped, plain = wrap(make_dqn(rep), rep), make_dqn(other)
    stats = update(wrapped, discrete=True)
    update(plain, discrete=True)

    np.random.seed(5)  # noqa: NPY002
    batch, _ = replay(discrete=True).sample(16)
    losses = other.losses(
        torch.as_tensor(batch.obs).float(),
        torch.as_tensor(batch.act),
        torch.as_tensor(batch.rew).float(),
        torch.as_tensor(batch.obs_next).float(),
        not_done=1 - torch.as_tensor(batch.terminated).float(),
        generator=torch.Generator().manual_seed(2),
    )
    optimizer = torch.optim.Adam(other.parameters(), lr=1e-3)
    optimizer.zero_grad()
    losses.total.backward()
    optimizer.step()
    other.update_targets()
    for (name, found), expected in zip(rep.state_dict().items(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(found, expected, msg=name)
    logged = stats.get_loss_stats_dict()
    assert logged["metric_loss"] == pytest.approx(float(losses.metrics["metric_loss"]))
    assert {"loss", "transition_loss", "distance_mean"} <= logged.keys()


@pytest.mark.parametrize("make", [make_sac, make_td3])
def test_the_actor_never_trains_the_encoder(make: Any) -> None:
    rep = make_rep()
    algorithm = make(rep)
    owned = {id(p) for p in algorithm.policy.actor.parameters()}
    assert not owned & {id(p) for p in rep.encoder.parameters()}
    wrapped = wrap(algorithm, rep)
    stats = update(wrapped, discrete=False, count=3)
    assert np.isfinite(list(stats.get_loss_stats_dict().values())).all()
    assert algorithm.policy.actor.preprocess.encoder is rep.encoder
    if make is make_td3:  # the lagged actor reads the same encoder, not a copy that stands still
        assert algorithm.actor_old.module.preprocess.encoder is rep.encoder
    z, _ = algorithm.policy.actor.preprocess(np.zeros((2, O)))
    assert not z.requires_grad
    assert int(rep.updates) == 3


def test_n_step_returns_leave_the_metrics_rewards_alone() -> None:
    seen: list[Tensor] = []
    for steps in (1, 3):
        rep = make_rep()
        wrapped = wrap(make_dqn(rep, n_step_return_horizon=steps), rep)
        losses = rep.losses
        rep.losses = lambda *given, losses=losses, **more: (seen.append(given[2]), losses(*given, **more))[1]  # type: ignore[method-assign]
        update(wrapped, discrete=True)
    assert torch.equal(*seen)


def test_the_state_is_saved_and_loaded_with_every_optimizer() -> None:
    rep, other = make_rep(), make_rep()
    first, second = wrap(make_dqn(rep), rep), wrap(make_dqn(other), other)
    update(first, discrete=True, count=3)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    first.generator, second.generator = (torch.Generator().manual_seed(7) for _ in range(2))
    second.wrapped_algorithm._iter = first.wrapped_algorithm._iter
    update(first, discrete=True, count=2)
    update(second, discrete=True, count=2)
    for (name, found), expected in zip(rep.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(found, expected), name


@pytest.mark.parametrize("name", ["mico+pamd", "dbc", "dbc-det", "deepmdp", "rap", "curl"])
def test_other_methods(name: str) -> None:
    rep = make_rep(pamd.method(name, latent_dim=D))
    stats = update(wrap(make_dqn(rep), rep), discrete=True)
    assert np.isfinite(list(stats.get_loss_stats_dict().values())).all()


def test_pixels_reach_the_encoder_as_bytes() -> None:
    rep = pamd.Representation(
        METHOD, encoder=pamd.encoder("conv", observation_shape=(3, 36, 36), latent_dim=D), action_dim=A
    )
    z, _ = LatentNet(rep)(np.full((2, 3, 36, 36), 7, np.uint8))
    torch.testing.assert_close(z, rep.encode(torch.full((2, 3, 36, 36), 7, dtype=torch.uint8)))


def test_wrong_inputs_are_named_before_training() -> None:
    rep = make_rep()
    with pytest.raises(ConfigError, match="method 'none' has no loss to add"):
        wrap(make_dqn(rep), make_rep(pamd.method("none", latent_dim=D)))
    with pytest.raises(ConfigError, match="operator 'value' reads value"):
        wrap(make_dqn(rep), make_rep(override(pamd.method("mico", latent_dim=D), ["operator.name=value"])))
    with pytest.raises(ConfigError, match="term 'mrq' of method 'mrq' reads windows of 5 steps"):
        wrap(make_dqn(rep), make_rep(pamd.method("mrq", latent_dim=D)))
    with pytest.raises(ConfigError, match=r"requires a pamd.Representation, got Linear"):
        wrap(make_dqn(rep), nn.Linear(2, 2))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"DQN does not train the representation's encoder.*LatentNet"):
        wrap(make_dqn(rep), make_rep())
    with pytest.raises(ConfigError, match=r"the actor's optimizer would train the encoder.*gradient=False"):
        wrap(make_sac(rep, actor_gradient=True), rep)
    with pytest.raises(ConfigError, match=r"critic2.latent reads a copy of the encoder"):
        wrap(make_sac(rep, second=False), rep)
    narrow = make_rep(action_dim=2)
    with pytest.raises(ConfigError, match=r"action_dim=2, but Discrete\(3\) requires 3"):
        wrap(make_dqn(narrow), narrow)
    other = make_dqn(rep)
    other.policy.action_space = spaces.MultiDiscrete([2, 3])
    with pytest.raises(ConfigError, match=r"Box\) or Discrete actions, got MultiDiscrete"):
        wrap(other, rep)
    net = DiscreteActor(preprocess_net=LatentNet(rep), action_shape=A)
    on_policy = Reinforce(policy=DiscreteActorPolicy(actor=net, action_space=DISCRETE), optim=ADAM)
    with pytest.raises(ConfigError, match="requires an off-policy algorithm of Tianshou, got Reinforce"):
        wrap(on_policy, rep)
    with pytest.raises(ConfigError, match="does not support dict observations"):
        LatentNet(rep)(Batch(picture=np.zeros((2, O))))
