"""The metric loss together with TorchRL's own losses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pamd
from pamd.errors import ConfigError, ShapeError
from pamd.methods import Method
from pamd.settings import override
from pamd.terms import DistancePart, MetricConfig, OperatorPart, TermPart

pytestmark = pytest.mark.slow
pytest.importorskip("torchrl")

from tensordict import TensorDict  # noqa: E402
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential  # noqa: E402
from torchrl.data import Bounded, LazyTensorStorage, ReplayBuffer  # noqa: E402
from torchrl.modules import ProbabilisticActor, QValueActor, TanhNormal, ValueOperator  # noqa: E402
from torchrl.objectives import DQNLoss, SACLoss, SoftUpdate  # noqa: E402

from pamd.integrations.torchrl import MetricLoss  # noqa: E402

B, O, D, A, GAMMA = 8, 5, 6, 3, 0.9  # noqa: E741
METHOD = pamd.method("simsr+pamd", transition={"members": 2}, latent_dim=D)


def make(method: Any = METHOD, encoder: nn.Module | None = None) -> pamd.Representation:
    torch.manual_seed(0)
    return pamd.Representation(method, encoder=encoder or nn.Linear(O, D), action_dim=A, gamma=GAMMA)


def transitions(*batch: int, discrete: bool = False, seed: int = 0) -> TensorDict:
    batch, g = batch or (B,), torch.Generator().manual_seed(seed)
    action = torch.rand(*batch, A, generator=g) * 2 - 1
    if discrete:
        action = nn.functional.one_hot(action.argmax(-1), A)
    done = torch.rand(*batch, 1, generator=g) < 0.3
    after = {
        "observation": torch.randn(*batch, O, generator=g),
        "reward": torch.randn(*batch, 1, generator=g),
        "terminated": done,
        "done": done,
    }
    return TensorDict(
        {"observation": torch.randn(*batch, O, generator=g), "action": action, "next": after}, batch_size=batch
    )


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(D + A, 1)

    def forward(self, z: Tensor, action: Tensor) -> Tensor:
        return self.layer(torch.cat([z, action], -1))


def make_sac() -> SACLoss:
    torch.manual_seed(1)
    head = nn.Sequential(nn.Linear(D, 2 * A), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(head, in_keys=["latent"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        spec=Bounded(-1, 1, (A,)),
    )
    loss = SACLoss(actor, ValueOperator(Critic(), in_keys=["latent", "action"]))
    SoftUpdate(loss, tau=0.01)
    return loss


def make_dqn() -> DQNLoss:
    torch.manual_seed(1)
    value = QValueActor(nn.Linear(D, A, bias=False), in_keys=["latent"], action_space="one-hot")
    loss = DQNLoss(value, action_space="one-hot", loss_function="l2", delay_value=True)
    loss.make_value_estimator(gamma=GAMMA)
    SoftUpdate(loss, tau=0.01)
    return loss


def test_the_encoders_gradient_by_hand_beside_dqn() -> None:
    """All pairs under l2, z = W x: every gradient is written out."""
    metric_config = MetricConfig(
        distance=DistancePart("l2"), operator=OperatorPart("independent"), pairing="all", target_encoder="online"
    )
    terms = (TermPart("metric", metric_config),)
    method = Method(name="by hand", latent_space="free", latent_dim=D, terms=terms)
    rep, dqn, batch = make(method, nn.Linear(O, D, bias=False)), make_dqn(), transitions(discrete=True)
    metric = MetricLoss(rep, beside=[dqn])
    encoded = metric.encode(batch)
    found = metric(encoded)
    (dqn(encoded)["loss"] + found["loss_metric"]).backward()

    W, V = rep.encoder.network.weight.detach(), dqn.value_network_params["module", "0", "module", "weight"].detach()
    x, x_next = batch["observation"], batch["next", "observation"]
    z, z_next, reward = x @ W.T, x_next @ W.T, batch["next", "reward"].squeeze(1)
    alive = 1 - batch["next", "terminated"].squeeze(1).float()
    chosen = batch["action"].argmax(1)
    error = (z @ V.T)[torch.arange(B), chosen] - (reward + GAMMA * alive * (z_next @ V.T).amax(1))
    critic_grad = 2 / B * (error[:, None] * V[chosen]).T @ x
    metric_grad = torch.zeros_like(W)
    for i in range(B):
        for j in range(B):
            gap, gap_next = z[i] - z[j], z_next[i] - z_next[j]
            target = (reward[i] - reward[j]).abs() + GAMMA * alive[i] * alive[j] * gap_next.norm()
            if i != j:
                slope = 2 / B**2 * (gap.norm() - target) / gap.norm()
                metric_grad += slope * torch.outer(gap, x[i] - x[j])
    torch.testing.assert_close(rep.encoder.network.weight.grad, critic_grad + metric_grad)
    assert critic_grad.abs().max() > 1e-3
    assert metric_grad.abs().max() > 1e-3


def test_beside_sac_the_critic_and_the_metric_train_the_encoder_and_the_actor_does_not() -> None:
    rep, sac, batch = make(), make_sac(), transitions()
    metric = MetricLoss(rep, beside=[sac], generator=torch.Generator().manual_seed(3))
    encoded = metric.encode(batch)
    z, losses = encoded["latent"], sac(encoded)
    found = metric(encoded)
    own = [p for p in rep.encoder.parameters() if p.requires_grad]
    (grad_z,) = torch.autograd.grad(losses["loss_qvalue"], z, retain_graph=True)
    expected = torch.autograd.grad(z, own, grad_z, retain_graph=True)
    other = rep.losses(
        batch["observation"],
        batch["action"],
        batch["next", "reward"],
        batch["next", "observation"],
        not_done=1 - batch["next", "terminated"].float(),
        generator=torch.Generator().manual_seed(3),
    )
    metric_grad = torch.autograd.grad(other.total, own)
    losses["loss_actor"].backward(inputs=list(sac.actor_network_params.parameters()))
    assert all(p.grad is None for p in own)
    (losses["loss_qvalue"] + found["loss_metric"] + found["loss_transition"] + found["loss_reward"]).backward()
    for parameter, one, two in zip(own, expected, metric_grad, strict=True):
        torch.testing.assert_close(parameter.grad, one + two)
    assert all(p.grad is not None for p in sac.actor_network_params.parameters())


@pytest.mark.parametrize("name", ["mico+pamd", "dbc", "dbc-det", "deepmdp", "zp", "rap", "dbc-normed", "curl"])
def test_every_method_and_its_terms(name: str) -> None:
    rep = make(pamd.method(name, latent_dim=D))
    metric, batch = MetricLoss(rep, generator=torch.Generator().manual_seed(3)), transitions(discrete=True)
    found = metric(metric.encode(batch))
    other = rep.losses(
        batch["observation"],
        batch["action"].argmax(1),
        batch["next", "reward"],
        batch["next", "observation"],
        not_done=1 - batch["next", "terminated"].float(),
        generator=torch.Generator().manual_seed(3),
    )
    for term in {"metric", "transition", "reward", *rep.terms}:
        expected = other[term].value if term in other else torch.zeros(())
        torch.testing.assert_close(found[f"loss_{term}"], expected)
    assert not any(found[key].requires_grad for key in set(found.keys()) if not key.startswith("loss_"))


def test_no_encoder_runs_twice_on_the_same_observations() -> None:
    rep, batch = make(), transitions()
    metric, seen = MetricLoss(rep), []
    for which, encoder in (("online", rep.encoder), ("ema", rep.target_encoders["ema"])):
        encoder.network.register_forward_hook(
            lambda module, inputs, output, which=which: seen.append((which, float(inputs[0].sum())))
        )
    metric(metric.encode(batch))
    assert len(seen) == len(set(seen)) == 4  # both copies, on states and on next states
    seen.clear()
    rep = make(pamd.method("dbc-det", latent_dim=D))
    metric = MetricLoss(rep)
    rep.encoder.network.register_forward_hook(lambda module, inputs, output: seen.append(float(inputs[0].sum())))
    metric(metric.encode(batch))
    assert len(seen) == len(set(seen)) == 2  # it reads online next latents, which encode computed


def test_shapes_of_batches_padding_and_keyword_arguments() -> None:
    rep = make(pamd.method("zp", latent_dim=D))
    metric, batch = MetricLoss(rep), transitions(2, 4)
    flat = metric(batch.reshape(-1))["loss_transition"]
    torch.testing.assert_close(metric(metric.encode(batch))["loss_transition"], flat)
    padded = torch.cat([batch, transitions(2, 4, seed=1)])
    padded["collector", "mask"] = torch.tensor([True, True, False, False])[:, None, None].expand(4, 4, 1)
    torch.testing.assert_close(metric(padded)["loss_transition"], flat)
    _, found, _ = metric(
        observation=batch["observation"].reshape(B, O),
        action=batch["action"].reshape(B, A),
        next_observation=batch["next", "observation"].reshape(B, O),
        next_reward=batch["next", "reward"].reshape(B, 1),
        next_terminated=batch["next", "terminated"].reshape(B, 1),
    )
    torch.testing.assert_close(found, flat)
    metric.set_keys(observation="pixels", latent=("a", "z"))
    other = batch.rename_key_("observation", "pixels").rename_key_(("next", "observation"), ("next", "pixels"))
    torch.testing.assert_close(metric(metric.encode(other))["loss_transition"], flat)


@pytest.mark.parametrize("kind", ["sac", "dqn"])
def test_a_training_loop_with_a_replay_buffer_and_a_policy_that_acts(kind: str) -> None:
    rep, loss = make(), make_sac() if kind == "sac" else make_dqn()
    metric, updater = MetricLoss(rep, beside=[loss]), SoftUpdate(loss, tau=0.05)
    optimizer = torch.optim.Adam([*loss.parameters(), *metric.parameters()], lr=3e-3)
    buffer = ReplayBuffer(storage=LazyTensorStorage(64), batch_size=32)
    buffer.extend(transitions(64, discrete=kind == "dqn"))
    before, slow = metric(buffer.sample())["transition_loss"], rep.target_encoders["ema"].network.weight.clone()
    for _ in range(30):
        batch = metric.encode(buffer.sample())
        losses = {**loss(batch), **metric(batch)}
        optimizer.zero_grad()
        sum(value for name, value in losses.items() if name.startswith("loss")).backward()
        optimizer.step()
        updater.step()
        metric.update_targets()
    assert metric(buffer.sample())["transition_loss"] < before
    assert not torch.equal(rep.target_encoders["ema"].network.weight, slow)
    network = loss.actor_network if kind == "sac" else loss.value_network
    policy = TensorDictSequential(TensorDictModule(rep.encode, in_keys=["observation"], out_keys=["latent"]), network)
    assert policy(transitions())["action"].shape == (B, A)
    metric.load_state_dict(metric.state_dict())


def test_an_encoder_inside_a_network_is_refused() -> None:
    """SACLoss would train a copy of it, drawn anew: the trap this refusal is about."""
    rep = make()

    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.critic = rep.encoder, Critic()

        def forward(self, obs: Tensor, action: Tensor) -> Tensor:
            return self.critic(self.encoder(obs), action)

    plain = make_sac()
    sac = SACLoss(plain.actor_network, ValueOperator(Reads(), in_keys=["observation", "action"]))
    drawn = sac.qvalue_network_params["module", "encoder", "network", "weight"]
    assert drawn.shape == (2, D, O)
    assert not torch.equal(drawn[0], rep.encoder.network.weight)
    with pytest.raises(ConfigError, match="qvalue_network of SACLoss contains the representation's encoder"):
        MetricLoss(rep, beside=[sac])


def test_wrong_inputs_are_named_before_anything_is_computed() -> None:
    with pytest.raises(ConfigError, match=r"requires a pamd.Representation, got Linear"):
        MetricLoss(nn.Linear(2, 2))
    with pytest.raises(ConfigError, match="method 'none' has no loss to add"):
        MetricLoss(make(pamd.method("none", latent_dim=D)))
    with pytest.raises(ConfigError, match="operator 'value' reads value, which a batch of single transitions"):
        MetricLoss(make(override(pamd.method("mico", latent_dim=D), ["metric.operator.name=value"])))
    with pytest.raises(ConfigError, match="term 'taco' of method 'taco' reads windows of 3 steps, which a batch of"):
        MetricLoss(make(pamd.method("taco", latent_dim=D)))
    with pytest.raises(ConfigError, match="the representation's encoder has no trainable parameters"):
        MetricLoss(make(pamd.method("simsr", transition={"members": 2}, latent_dim=D), nn.Identity()))
    metric, batch = MetricLoss(make()), transitions()
    pixels = MetricLoss(make())
    pixels.set_keys(observation="pixels")
    with pytest.raises(ConfigError, match=r"no 'pixels'; name the key with set_keys\. Its keys: .*observation"):
        pixels(batch)
    with pytest.raises(ConfigError, match="'latent' has no gradient"):
        metric(metric.encode(batch).detach())
    with pytest.raises(ConfigError, match="MultiStep sums rewards over several steps"):
        metric(batch.clone().set("steps_to_next_obs", torch.ones(B, 1)))
    with pytest.raises(ShapeError, match=r"must hold one reward per transition, 8, got \[8, 2\]"):
        metric(batch.clone().set(("next", "reward"), torch.zeros(B, 2)))
