"""DrM: the dormant ratio, and what it controls, against numbers computed independently in float64."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.agent.batches import BATCH, OBSERVATION, equal, make_agent, make_batch, make_config
from tests.training.runs import products, toy, undisturbed
from torch import nn

import pamd
from pamd.agent import Agent
from pamd.errors import ConfigError
from pamd.learners import LearnerPart, Step
from pamd.learners.dormancy import Drm, DrmOptions
from pamd.learners.drm import DrmConfig, DrmLearner
from pamd.learners.drqv2 import DrqV2
from pamd.learners.sac import Sac, SacConfig
from pamd.representation import LatentEncoder
from pamd.representation.meters import dormant_ratio
from pamd.runs.identity import run_name
from pamd.schema import to_tree
from pamd.settings import override
from pamd.training import resume, train
from pamd.types import Batch

Array = np.ndarray
SMALL: dict[str, Any] = {"hidden": 32}
WITH_DRM: list[tuple[str, dict[str, Any]]] = [
    ("drm", SMALL),
    ("sac", {**SMALL, "drm": {"exploration": False}}),
]
each_learner = pytest.mark.parametrize(("learner", "options"), WITH_DRM)


# -- The dormant ratio -------------------------------------------------------------------------------------------------


def test_dormant_units_are_small_compared_with_their_layer() -> None:
    """The means of the first layer are 1, 0.02 and 0: 0.02 is above 0.025 of the layer's mean, 0.34."""
    first = torch.tensor([[-1.0, 0.04, 0], [1, 0, 0]]).double()
    assert float(dormant_ratio([first])) == pytest.approx(1 / 3)
    second = torch.tensor([[4.0, 0.1], [4, -0.1]]).double()  # 0.1 is below 0.025 * 2.05? No: 0.05 is the limit.
    assert float(dormant_ratio([first, second])) == pytest.approx(1 / 5)
    assert float(dormant_ratio([first, second / torch.tensor([1.0, 2]).double()])) == pytest.approx(2 / 5)
    assert float(dormant_ratio([torch.zeros(2, 3)])) == 1
    assert float(dormant_ratio([torch.ones(2, 3)])) == 0


def layers_of(network: nn.Sequential, x: Array) -> list[Array]:
    """The outputs of the hidden layers and of the last one, in numpy."""
    outputs = []
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    for i, layer in enumerate(linear):
        x = x @ layer.weight.detach().double().numpy().T + layer.bias.detach().double().numpy()
        x = np.maximum(x, 0) if i < len(linear) - 1 else x
        outputs.append(x)
    return outputs


def dormant(layers: list[Array]) -> float:
    means = [np.abs(layer).mean(0) for layer in layers]
    return sum(int((mean / mean.mean() <= 0.025).sum()) for mean in means) / sum(len(mean) for mean in means)


@pytest.mark.parametrize("learner", ["sac", "drqv2"])
def test_every_agent_measures_actor_and_critic(learner: str) -> None:
    agent, batch = make_agent("none", learner=learner, options={"hidden": 64}), make_batch()
    for seed in range(3):
        agent.update(make_batch(seed))
    before = {name: tensor.clone() for name, tensor in agent.tensors().items()}
    ratios = agent.dormant_ratios(batch)
    assert all(torch.equal(tensor, before[name]) for name, tensor in agent.tensors().items())
    assert ratios.keys() == {"dormant_actor", "dormant_critic"}
    own, encoder = agent.learner, agent.representation.encoder
    with torch.no_grad():
        features = encoder.trunk(encoder.prepare(batch.obs))
        z = encoder.head(features)
        latents = own.actor.normalize(own.actor.head(features)).double().numpy()
        inputs = torch.cat([z, torch.from_numpy(agent.act(batch.obs.numpy()))], -1).double().numpy()
    assert ratios["dormant_actor"] == pytest.approx(dormant(layers_of(own.actor.trunk, latents)[:2]), abs=2e-3)
    critics = [layer for q in (own.critic.q1, own.critic.q2) for layer in layers_of(q, inputs)[:2]]
    assert ratios["dormant_critic"] == pytest.approx(dormant(critics), abs=2e-3)
    nn.init.constant_(own.actor.trunk[0].bias, -1e6)
    dead = agent.dormant_ratios(batch)
    assert dead["dormant_actor"] >= 0.5
    assert dead["dormant_actor"] > ratios["dormant_actor"]


# -- Noise, targets, perturbation --------------------------------------------------------------------------------------


def make_drm(ratio: float, awake_at: int = -1, **options: Any) -> Drm:
    torch.manual_seed(0)
    drm = Drm(DrmOptions(**options), 4, 8, layer_norm=False).double()
    drm.ratio.fill_(ratio)
    drm.awake_at.fill_(awake_at)
    return drm


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.2, 0.35, 0.9])
def test_noise_and_kept_weights_by_hand(ratio: float) -> None:
    noise = 1 / (1 + math.exp(-10 * (ratio - 0.2)))

    def schedule(since: torch.Tensor) -> torch.Tensor:
        return 1 - 0.9 * (since / 100).clamp(max=1)

    assert float(make_drm(ratio).noise(500, schedule)) == pytest.approx(noise, abs=1e-10)
    # It awoke at decision 460, so the schedule is at 40 of 100 decisions.
    assert float(make_drm(ratio, 460).noise(500, schedule)) == pytest.approx(max(noise, 0.64), abs=1e-10)
    assert make_drm(ratio).kept == pytest.approx(min(max(1 - 2 * ratio, 0.2), 0.9), abs=1e-10)
    assert make_drm(ratio, alpha_max=0.5).kept == pytest.approx(min(max(1 - 2 * ratio, 0.2), 0.5), abs=1e-10)


def test_the_schedule_of_the_noise_begins_at_the_awakening() -> None:
    agent = make_agent("none", learner="drm", options={**SMALL, "noise_decisions": 100, "drm": {"measure_every": 1}})
    learner = agent.learner
    assert isinstance(learner, DrmLearner)
    assert learner.drm is not None
    assert float(learner.noise_at(Step(0, 0))) == pytest.approx(1 / (1 + math.exp(-8)))  # nothing is measured yet
    agent.update(make_batch(), decisions=70)
    assert int(learner.drm.awake_at) == (70 if float(learner.drm.ratio) <= 0.2 else -1)
    learner.drm.awake_at.fill_(70)
    learner.drm.ratio.fill_(0.0)
    assert [float(learner.noise_at(Step(k, 9))) for k in (70, 120, 170, 500)] == pytest.approx(
        [1.0, 0.55, 1 / (1 + math.exp(2)), 1 / (1 + math.exp(2))]
    )
    nn.init.constant_(learner.actor.trunk[0].bias, -1e6)
    agent.update(make_batch(), decisions=80)
    assert float(learner.drm.ratio) >= 0.5
    assert int(learner.drm.awake_at) == 70, "it awakens once"


def test_the_ratio_is_measured_at_the_first_update_and_then_every_few() -> None:
    agent, seen = make_agent("none", learner="drm", options={**SMALL, "drm": {"measure_every": 3}}), []
    learner = agent.learner
    for i in range(7):
        learner.drm.ratio.fill_(-1.0)  # type: ignore[union-attr]
        metrics = agent.update(make_batch(i))
        seen.append(float(metrics["drm_ratio"]) >= 0)
    assert seen == [True, False, False, True, False, False, True]


class Toy:
    """A learner on a linear encoder in float64, and everything that the critic's target is computed from."""

    def __init__(self, cls: Any, config: Any, ratio: float, value_bias: float = 0.0) -> None:
        torch.manual_seed(0)
        self.encoder = LatentEncoder(nn.Linear(5, 4), "tanh", 4)
        self.learner = cls(config, self.encoder, 2).double()
        rep = pamd.Representation(
            pamd.method("none", latent_dim=4, latent_space="tanh"),
            encoder=self.encoder,
            action_dim=2,
            target_encoder=cls.target_encoder,
        ).double()
        self.learner.drm.ratio.fill_(ratio)
        nn.init.constant_(self.learner.drm.value[-1].bias, value_bias)  # so that errors have both signs
        for module in (*rep.target_encoders.values(), self.learner.target_critic):  # differ from their originals
            for parameter in module.parameters():
                parameter.data.add_(0.2 * torch.randn_like(parameter))
        self.learner.actor.trunk[-1].weight.data.mul_(0.1)  # softplus of torch is inexact for large actions
        draw = torch.Generator().manual_seed(1)
        obs, next_obs = (torch.randn(7, 5, generator=draw).double() for _ in range(2))
        action = torch.rand(7, 2, generator=draw).double() * 2 - 1
        reward, ends = torch.rand(7, generator=draw).double(), torch.tensor([1.0, 0] * 3 + [1]).double()
        self.batch, self.rep = Batch(obs, action, reward, next_obs, ends), rep
        generator = torch.Generator().manual_seed(2)
        latents = rep.latents_of(self.batch, generator=generator)
        self.loss = self.learner.critic_loss(self.batch, latents, Step(0, 2), generator)
        self.noise = torch.randn(7, 2, generator=torch.Generator().manual_seed(2)).double().numpy()

    def min_q(self, critic: Any, z: Array, action: Array) -> Array:
        joined = np.concatenate([z, action], 1)
        return np.minimum(layers_of(critic.q1, joined)[-1][:, 0], layers_of(critic.q2, joined)[-1][:, 0])

    def expected(self, z: Array, z_bar: Array, z_bar_next: Array, value: Array, ratio: float) -> tuple[float, float]:
        """The critic's loss and V's, from the latents and the soft or smoothed value of the next states."""
        drm, batch, learner = self.learner.drm, self.batch, self.learner
        action = batch.action.numpy()
        weight = 0.6 / (1 + math.exp(50 * (ratio - 0.2)))
        mixed = weight * layers_of(drm.value, z_bar_next)[-1][:, 0] + (1 - weight) * value
        target = batch.reward.numpy() + 0.99 * batch.not_done.numpy() * mixed
        joined = np.concatenate([z, action], 1)
        errors = [layers_of(q, joined)[-1][:, 0] - target for q in (learner.critic.q1, learner.critic.q2)]
        critic = sum(float((error**2).mean()) for error in errors)
        error = self.min_q(learner.target_critic, z_bar, action) - layers_of(drm.value, z_bar)[-1][:, 0]
        assert (error < 0).any()
        assert (error > 0).any()
        return critic, float((np.abs(0.9 - (error < 0)) * error**2).mean())


def normed(network: Any, x: Array) -> Array:
    """The head's LayerNorm and tanh, in numpy. The gain is 1 and the bias 0 unless they were drawn."""
    norm = network.space.norm
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + norm.eps)
    return np.tanh(x * norm.weight.detach().numpy() + norm.bias.detach().numpy())


def encoded(network: Any, x: torch.Tensor) -> Array:
    return normed(network, layers_of(nn.Sequential(network.network), x.numpy())[-1])


@pytest.mark.parametrize("ratio", [0.1, 0.22, 0.8])
def test_the_losses_of_drm_by_hand(ratio: float) -> None:
    config = DrmConfig(hidden=8, n_step=1, augmentation="none", drm=DrmOptions(measure_every=1000))  # type: ignore[arg-type]
    made = Toy(DrmLearner, config, ratio)
    learner, batch = made.learner, made.batch
    # The encoder's whole network is its trunk here, and the head is the latent space, so both copies are equal.
    features, features_next = (
        layers_of(nn.Sequential(made.encoder.network), x.numpy())[-1] for x in (batch.obs, batch.next_obs)
    )
    z, z_next = normed(made.encoder, features), normed(made.encoder, features_next)
    actor = layers_of(nn.Sequential(learner.actor.head), features_next)[-1]
    norm = learner.actor.normalize.norm
    actor = np.tanh((actor - actor.mean(-1, keepdims=True)) / np.sqrt(actor.var(-1, keepdims=True) + norm.eps))
    # Random numbers are float32, and so is the noise.
    std, limit = np.float32(1 / (1 + math.exp(-10 * (ratio - 0.2)))), np.float32(0.3)
    scaled = np.clip(std * made.noise.astype(np.float32), -limit, limit).astype(np.float64)
    action = np.tanh(layers_of(learner.actor.trunk, actor)[-1]) + scaled
    value = made.min_q(learner.target_critic, z_next, np.clip(action, -1, 1))
    critic, of_value = made.expected(z, z, z_next, value, ratio)
    assert float(made.loss.metrics["critic_loss"]) == pytest.approx(critic, abs=1e-10)
    assert float(made.loss.metrics["value_loss"]) == pytest.approx(of_value, abs=1e-10)
    assert float(made.loss.value.detach()) == pytest.approx(critic + of_value, abs=1e-10)


@pytest.mark.parametrize("ratio", [0.1, 0.22, 0.8])
def test_the_losses_of_sac_with_drm_by_hand(ratio: float) -> None:
    """V has a share of the soft value. Its latents are those of the target critic, of the slow encoder."""
    config = SacConfig(hidden=8, drm=DrmOptions(measure_every=1000, exploration=False))
    made = Toy(Sac, config, ratio, value_bias=0.4)
    learner, batch, slow = made.learner, made.batch, made.rep.target_encoders["ema"]
    features_next = layers_of(nn.Sequential(made.encoder.network), batch.next_obs.numpy())[-1]
    actor = layers_of(nn.Sequential(learner.actor.head), features_next)[-1]
    norm = learner.actor.normalize.norm
    actor = np.tanh((actor - actor.mean(-1, keepdims=True)) / np.sqrt(actor.var(-1, keepdims=True) + norm.eps))
    mean, raw = np.split(layers_of(learner.actor.trunk, actor)[-1], 2, axis=-1)
    log_std = -10 + 6 * (np.tanh(raw) + 1)
    unbounded = mean + np.exp(log_std) * made.noise
    halves = (made.noise.astype(np.float32) ** 2 / np.float32(2)).astype(np.float64)  # random numbers are float32
    log_prob = -(halves + log_std + math.log(2 * math.pi) / 2) - np.log(1 - np.tanh(unbounded) ** 2)
    z_next = encoded(slow, batch.next_obs)
    temperature = float(learner.log_temperature.detach().exp())
    value = made.min_q(learner.target_critic, z_next, np.tanh(unbounded)) - temperature * log_prob.sum(-1)
    critic, of_value = made.expected(encoded(made.encoder, batch.obs), encoded(slow, batch.obs), z_next, value, ratio)
    assert float(made.loss.metrics["critic_loss"]) == pytest.approx(critic, abs=1e-10)
    assert float(made.loss.metrics["value_loss"]) == pytest.approx(of_value, abs=1e-10)


@each_learner
def test_only_its_own_loss_trains_v(learner: str, options: dict[str, Any]) -> None:
    agent = make_agent("none", learner=learner, options=options)
    drm: Any = agent.learner.drm
    latents = agent._latents(make_batch())
    alone = drm.with_value_loss(pamd.Loss(torch.zeros(()), {}), latents.z, torch.ones(BATCH, requires_grad=True))
    grads = torch.autograd.grad(alone.value, [*drm.parameters(), latents.z], allow_unused=True)
    assert grads[-1] is None
    assert all(grad is not None for grad in grads[:-1])
    before = [p.detach().clone() for p in drm.parameters()]
    agent.update(make_batch())
    assert all(not torch.equal(p, q) for p, q in zip(before, drm.parameters(), strict=True) if p.any())


def test_without_its_weight_there_is_no_v() -> None:
    agent = make_agent("none", learner="drm", options={**SMALL, "drm": {"value_weight": 0.0}})
    metrics = agent.update(make_batch())
    assert "value_loss" not in metrics
    assert metrics["drm_ratio"] >= 0
    assert not [name for name in agent.tensors() if ".drm.value" in name]


@each_learner
@pytest.mark.parametrize("name", ["none", "simsr+pamd"])
def test_a_perturbation_mixes_in_new_initial_weights(learner: str, options: dict[str, Any], name: str) -> None:
    options = {**SMALL, "drm": {**options.get("drm", {}), "perturb_every": 3, "measure_every": 1}}
    agent = make_agent(name, learner=learner, options=options)
    for i in range(2):
        agent.update(make_batch(i))
    unperturbed = make_agent(name, learner=learner, options={**SMALL, "drm": {**options["drm"], "perturb_every": None}})
    unperturbed.load(agent.tensors())
    unperturbed.update(make_batch(2))
    agent.update(make_batch(2))
    draw = torch.Generator()
    draw.set_state(unperturbed.generator.get_state())
    seed = int(torch.randint(2**62, (), generator=draw))
    assert torch.equal(draw.get_state(), agent.generator.get_state())
    fresh = Agent(agent.config, observation_shape=OBSERVATION, action_dim=2, seed=seed)
    kept = unperturbed.learner.drm.kept  # type: ignore[union-attr]
    assert 0.2 <= kept < 1
    touched = ("learner.actor.", "learner.critic.", "representation.encoder.")
    moved = 0
    for key, value in agent.nets.state_dict().items():
        before, new = unperturbed.nets.state_dict()[key], fresh.nets.state_dict()[key]
        if key.startswith(touched) and ".ball." not in key:
            torch.testing.assert_close(value.double(), kept * before.double() + (1 - kept) * new.double())
            moved += int(not torch.equal(value, before))
        else:
            assert torch.equal(value, before), key
    assert moved > 5
    perturbed = {p for n in (agent.representation.encoder, *agent.learner.networks().values()) for p in n.parameters()}
    for optimizer in agent.optimizers.values():
        parameters = {p for group in optimizer.param_groups for p in group["params"]}
        assert set(optimizer.state) == parameters - perturbed


@each_learner
@pytest.mark.parametrize("schedule", ["sequential", "joint"])
def test_a_saved_state_continues_bit_for_bit(learner: str, options: dict[str, Any], schedule: str) -> None:
    """Saved before, between and after perturbations and measurements."""
    drm = {**options.get("drm", {}), "perturb_every": 4, "measure_every": 3}
    made: dict[str, Any] = {"learner": learner, "options": {**SMALL, "drm": drm}, "schedule": schedule}
    straight, saved = make_agent("simsr+pamd", **made), []
    for i in range(9):
        saved.append({name: tensor.clone() for name, tensor in straight.tensors().items()})
        straight.update(make_batch(i), decisions=i)
    for start in (1, 4, 5, 6):
        resumed = make_agent("simsr+pamd", seed=5, **made)
        resumed.load(copy.deepcopy(saved[start]))
        for i in range(start, 9):
            resumed.update(make_batch(i), decisions=i)
        assert equal(straight, resumed)


class KilledError(Exception):
    """Ends a run where nothing is saved."""


class Dies:
    """Ends a run at one decision, as a kill would."""

    def __init__(self, decision: int) -> None:
        self.decision = decision

    def progress(self, session: Any) -> None:
        if session.budget.decisions == self.decision:
            raise KilledError

    def say(self, message: str) -> None:
        pass


@pytest.mark.parametrize("decision", [33, 47])
def test_a_killed_run_resumes_bit_for_bit(tmp_path: Path, decision: int) -> None:
    """Updates 7 and 13 are the last of the checkpoints; perturbations are at 6, 12 and 18, measurements at 1, 5, ..."""
    config = override(toy("drm"), ("learner.hidden=32", "learner.drm.perturb_every=6", "learner.drm.measure_every=4"))
    with pytest.raises(KilledError):
        train(config, tmp_path, Dies(decision))
    (run,) = tmp_path.iterdir()
    resume(run)
    assert products(run) == undisturbed(config)


# -- Options and names -------------------------------------------------------------------------------------------------


def test_the_learner_drm_is_drqv2_with_the_option() -> None:
    options = {"drm": SMALL, "drqv2": {**SMALL, "drm": {}}}
    agents = [make_agent("simsr+pamd", learner=name, options=options[name]) for name in options]
    for agent in agents:
        for i in range(3):
            agent.update(make_batch(i))
    assert equal(*agents)
    assert make_agent("none", learner="drqv2", options=SMALL).learner.drm is None


def test_sac_refuses_scheduled_noise() -> None:
    with pytest.raises(ConfigError, match=r"no scheduled noise.*learner\.drm\.exploration=false"):
        LearnerPart("sac", {"drm": {}})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha_max": 0.0}, "alpha_max must be"),
        ({"value_weight": 1.5}, "value_weight must be"),
        ({"value_expectile": 1.0}, "value_expectile must be"),
        ({"perturb": 3}, "Did you mean 'perturb_every'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        LearnerPart("drm", {"drm": options})


def test_one_setting_turns_it_on_and_null_turns_it_off() -> None:
    plain = pamd.configure("toy", "drqv2", scale="smoke")
    on = pamd.configure("toy", "drqv2", scale="smoke", settings=["learner.drm.perturb_every=7"])
    assert plain.learner.options.drm is None
    assert on.learner.options.drm == DrmOptions(perturb_every=7)
    off = pamd.configure("toy", "drm", scale="smoke", settings=["learner.drm=null"])
    assert off.learner.options.drm is None
    never = pamd.configure("toy", "drm", scale="smoke", settings=["learner.drm.perturb_every=none"])
    assert never.learner.options.drm.perturb_every is None
    again = pamd.configure("toy", "drm", scale="smoke")
    assert again.learner.options.drm.perturb_every == 40, "a setting must not change the scale itself"


def test_runs_without_it_keep_their_names() -> None:
    for learner in ("sac", "drqv2"):
        tree = to_tree(pamd.configure("toy", learner, scale="smoke"))
        name = run_name(tree)
        assert tree["learner"]["options"].pop("drm") is None
        assert run_name(tree) == name
    on = to_tree(pamd.configure("toy", "drqv2", scale="smoke", settings=["learner.drm={}"]))
    assert run_name(on) != name
    assert run_name(to_tree(toy("drm"))).startswith("toy_drm_s0_")
    assert toy("drm:simsr+pamd").label == "drm:simsr+pamd"


def test_drqv2_and_drm_differ_in_nothing_else() -> None:
    assert {name: getattr(DrmConfig(), name) for name in vars(DrmConfig()) if name != "drm"} == {
        name: getattr(DrqV2.Config(), name) for name in vars(DrqV2.Config()) if name != "drm"
    }
    assert make_config("none", learner="drm").learner.options.drm == DrmOptions()
