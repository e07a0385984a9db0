"""Algorithms of other libraries with a behavioral metric, compared with the plain algorithms, on 84 x 84 pixels."""

from __future__ import annotations

import copy
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.common import Options
from pamd.encoders import encoder as make_encoder
from pamd.measure import interleave, milliseconds, ratio
from pamd.optimization import adam
from pamd.representation import Representation
from pamd.table import Table

__all__ = ["Frames", "make_model", "measure", "parts_alone"]

ON_REQUEST = "requires pamd[sb3]"
PLAIN = "plain SB3"
PAMD = "simsr+pamd"
METHODS: dict[str, dict[str, Any]] = {
    PLAIN: {},
    PAMD: {"method": PAMD},
    "simsr+pamd, ensemble=1": {"method": PAMD, "ensemble": 1},
    "mico": {"method": "mico"},
    "simsr+pamd, extra passes": {"method": PAMD, "extra_passes": True},
}
RUN_STEPS = {"DQN": 8, "SAC": 1}
"""Decisions per run. With SB3's default train_freq, this is two updates of DQN and one of SAC."""
FIRST_STEPS = 300
"""Decisions before the first update. They fill the replay with at least one batch."""


class Frames(gymnasium.Env[NDArray[np.uint8], Any]):
    """An environment of negligible cost that returns images [C, 84, 84] from a fixed set."""

    def __init__(self, discrete: bool) -> None:
        channels = 4 if discrete else 9  # four gray frames as in Atari, or three RGB frames
        self.observation_space = spaces.Box(0, 255, (channels, 84, 84), np.uint8)
        self.action_space = spaces.Discrete(6) if discrete else spaces.Box(-1.0, 1.0, (6,), np.float32)
        draw = np.random.default_rng(0)
        self._store = draw.integers(0, 256, (16, channels, 84, 84), dtype=np.uint8)
        self._age = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        super().reset(seed=seed)
        return self._store[0], {}

    def step(self, action: Any) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        self._age += 1
        return self._store[self._age % 16], float(self._age % 3), False, self._age % 200 == 0, {}


def measure(options: Options) -> Table:
    from pamd.integrations.requirements import require_library

    require_library("this benchmark", "stable-baselines3", (2, 9), "sb3")
    rows = [row for algorithm in RUN_STEPS for row in _rows(algorithm, options)]
    for library, updates in make_updates().items():
        seconds = interleave(updates, options.repetitions, time.process_time)
        rows += [_update_alone(rows[0], library, name, seconds[name], seconds["plain"]) for name in updates]
    notes = (
        "x plain: time with the metric relative to plain SB3 with the same policy, measured alternately; median"
        " (quartiles). Settings are SB3's defaults, with batches of 32 (DQN) and 256 (SAC).",
        "Times are CPU times of all threads of the process. Wall times were unreliable, because other processes"
        " interrupt an update of SAC.",
        "update: one call of train. run: learn, with acting and replay, at SB3's default train_freq (an update every 4"
        " decisions for DQN, every decision for SAC), in an environment of negligible cost.",
        "x SB3's CnnPolicy: relative to plain SB3 with its own policy. LatentPolicy has one encoder for actor and"
        " critic, whereas SB3's CnnPolicy of SAC has two, and a smaller linear layer after the convolutions.",
        "By default, the metric adds no encoder passes, except for MICo's right-hand side (the target network reads"
        " the states). With extra passes, simsr+pamd adds one pass for slow latents of the states and one for online"
        " latents of the next states.",
        "latent model alone, distance alone: forward, backward and Adam of these parts of simsr+pamd on given latents,"
        " without encoders; x plain is their share of the plain update with LatentPolicy.",
        "TorchRL, Tianshou: an update of their DQN on 9 x 84 x 84 pixels, batches of 32, with our conv encoder.",
        "pytorch-metric-learning: a triplet loss on 32 such images, with its own LpDistance (plain) and with ours.",
    )
    title = f"Other libraries with a metric, 84 x 84 pixels, {options.threads} threads"
    return Table.from_records("integrations", title, rows, notes)


def make_model(
    algorithm: str, policy: str, method: str | None = None, *, ensemble: int | None = None, **options: Any
) -> Any:
    """Make an SB3 algorithm, plain or with a metric, whose replay contains at least one batch."""
    import stable_baselines3

    from pamd.integrations.sb3 import with_metric
    from pamd.integrations.sb3.policies import LATENT_POLICIES
    from pamd.methods import method as named_method

    cls: Any = getattr(stable_baselines3, algorithm)
    built: Any = LATENT_POLICIES[algorithm] if policy == "LatentPolicy" else policy
    changes: dict[str, Any] = {} if ensemble is None else {"transition": {"members": ensemble}}
    made = cls if method is None else with_metric(cls, named_method(method, **changes), **options)
    env = Frames(discrete=algorithm == "DQN")
    model = made(built, env, seed=0, device="cpu", buffer_size=FIRST_STEPS, learning_starts=FIRST_STEPS)
    return model.learn(FIRST_STEPS)


def _rows(algorithm: str, options: Options) -> list[dict[str, Any]]:
    models = {
        (policy, name): make_model(algorithm, policy, **settings)
        for policy in ("CnnPolicy", "LatentPolicy")
        for name, settings in METHODS.items()
    }
    runs: dict[str, Callable[[], object]] = {}
    for (policy, name), model in models.items():
        runs[f"update {policy} {name}"] = _update(model)
        runs[f"run {policy} {name}"] = _run(model, RUN_STEPS[algorithm])
    parts = parts_alone(models["LatentPolicy", PAMD])
    seconds = interleave(runs | parts, options.repetitions, time.process_time)
    rows = [_row(algorithm, *key, seconds) for key in models]
    whole = seconds[f"update LatentPolicy {PLAIN}"]
    return rows + [_update_alone(rows[0], algorithm, name, seconds[name], whole) for name in parts]


def _update_alone(
    like: dict[str, Any], algorithm: str, method: str, update: list[float], plain: list[float]
) -> dict[str, Any]:
    """Return a row for a measurement of updates only, with the columns of another row."""
    columns = {"update, CPU ms": milliseconds(update), "update, x plain": str(ratio(update, plain))}
    return {**dict.fromkeys(like), "algorithm": algorithm, "policy": "-", "method": method, **columns}


def _row(algorithm: str, policy: str, name: str, seconds: dict[str, list[float]]) -> dict[str, Any]:
    update, run = (seconds[f"{kind} {policy} {name}"] for kind in ("update", "run"))
    return {
        "algorithm": algorithm,
        "policy": policy,
        "method": name,
        "update, CPU ms": milliseconds(update),
        "update, x plain": str(ratio(update, seconds[f"update {policy} {PLAIN}"])),
        "CPU ms a decision": round(milliseconds(run) / RUN_STEPS[algorithm], 3),
        "run, x plain": str(ratio(run, seconds[f"run {policy} {PLAIN}"])),
        "run, x SB3's CnnPolicy": str(ratio(run, seconds[f"run CnnPolicy {PLAIN}"])),
    }


def parts_alone(model: Any) -> dict[str, Callable[[], object]]:
    """Return an update of the latent model and an update of the distance of a model's method, on given latents."""
    representation = copy.deepcopy(model.metric.representation)
    draw, count = torch.Generator().manual_seed(0), model.batch_size
    z, z_next = (F.normalize(torch.randn(count, representation.method.latent_dim, generator=draw)) for _ in range(2))
    action = torch.rand(count, representation.action_dim, generator=draw)
    transition, distance = representation.terms["transition"], representation.distance
    optimizers = {part: adam(part.parameters(), 1e-4) for part in (transition, distance)}
    z.requires_grad_()

    def step(part: torch.nn.Module, loss: Tensor) -> None:
        optimizers[part].zero_grad()
        loss.backward()
        optimizers[part].step()

    def learn_distance() -> None:
        with torch.no_grad():
            target = distance(z_next, z_next.roll(1, 0))
        measured = distance.measure(z, z.roll(1, 0))
        step(distance, F.mse_loss(measured.value, target) + measured.penalty)

    return {
        "latent model alone": lambda: step(transition, transition.predict(None, z, action).loss(z_next)),
        "distance alone": learn_distance,
    }


def _update(model: Any) -> Callable[[], object]:
    return lambda: model.train(gradient_steps=1, batch_size=model.batch_size)


def _run(model: Any, steps: int) -> Callable[[], object]:
    return lambda: model.learn(steps, reset_num_timesteps=False)


BATCH, ACTIONS, HIDDEN, LABELS = 32, 6, 512, 4
SHAPE = (9, 84, 84)
METHOD = "simsr+pamd"
Updates = dict[str, Callable[[], object]]


def make_updates() -> dict[str, Updates]:
    """Return updates of DQN or a triplet loss, plain and with pamd, for each installed library."""
    makers = {"torchrl": ("TorchRL", _torchrl), "tianshou": ("Tianshou", _tianshou)}
    makers["pytorch_metric_learning"] = ("pytorch-metric-learning", _metric_learning)
    return {name: make() for module, (name, make) in makers.items() if importlib.util.find_spec(module) is not None}


def _representation() -> Representation:
    encoder = make_encoder("conv", observation_shape=SHAPE, latent_dim=50)
    return Representation(METHOD, encoder=encoder, action_dim=ACTIONS)


def _torchrl() -> Updates:
    from tensordict import TensorDict
    from torchrl.modules import QValueActor
    from torchrl.objectives import DQNLoss, SoftUpdate

    from pamd.integrations.torchrl import MetricLoss

    over = torch.zeros(BATCH, 1, dtype=torch.bool)
    after = {"observation": _pictures(), "reward": torch.rand(BATCH, 1), "done": over, "terminated": over}
    fields = {"observation": _pictures(), "action": torch.randint(ACTIONS, (BATCH,)), "next": after}
    batch = TensorDict(fields, [BATCH])

    def make(with_metric: bool) -> Callable[[], object]:
        head = nn.Sequential(nn.Linear(50, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, ACTIONS))
        value = QValueActor(head, in_keys=["latent"], action_space="categorical")
        dqn = DQNLoss(value, action_space="categorical", delay_value=True)
        rep, targets = _representation(), SoftUpdate(dqn, tau=0.005)
        metric = MetricLoss(rep, beside=[dqn])
        trained = metric if with_metric else rep.encoder
        optimizer = torch.optim.Adam([*dqn.parameters(), *(p for p in trained.parameters() if p.requires_grad)])

        def update() -> None:
            encoded = metric.encode(batch.clone(False))
            losses = {**dqn(encoded), **(metric(encoded) if with_metric else {})}
            optimizer.zero_grad()
            sum(loss for name, loss in losses.items() if name.startswith("loss")).backward()
            optimizer.step()
            targets.step()
            metric.update_targets()

        return update

    return {"plain": make(False), METHOD: make(True)}


def _tianshou() -> Updates:
    from tianshou.algorithm import DQN
    from tianshou.algorithm.algorithm_base import policy_within_training_step
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Batch, ReplayBuffer
    from tianshou.utils.net.discrete import DiscreteActor

    from pamd.integrations.tianshou import LatentNet, MetricOffPolicyWrapper

    buffer, adam = ReplayBuffer(BATCH), AdamOptimizerFactory(lr=1e-4)
    for obs, following in zip(_pictures().numpy(), _pictures().numpy(), strict=True):
        values = {"obs": obs, "obs_next": following, "act": np.random.default_rng(0).integers(ACTIONS), "rew": 1.0}
        buffer.add(Batch(**values, terminated=False, truncated=False, info={}))

    def make(with_metric: bool) -> Callable[[], object]:
        rep = _representation()
        net = DiscreteActor(
            preprocess_net=LatentNet(rep), action_shape=ACTIONS, softmax_output=False, hidden_sizes=[HIDDEN]
        )
        policy = DiscreteQLearningPolicy(model=net, action_space=spaces.Discrete(ACTIONS))
        algorithm: Any = DQN(policy=policy, optim=adam, target_update_freq=100)
        if with_metric:
            algorithm = MetricOffPolicyWrapper(wrapped_algorithm=algorithm, representation=rep, optim=adam)

        def update() -> None:
            with policy_within_training_step(algorithm.policy):
                algorithm.update(buffer, BATCH)

        return update

    return {"plain": make(False), METHOD: make(True)}


def _metric_learning() -> Updates:
    from pytorch_metric_learning import losses
    from pytorch_metric_learning.distances import LpDistance

    from pamd.integrations.metric_learning import LatentDistance

    pictures, labels = _pictures(), torch.arange(BATCH) % LABELS

    def make(distance: Any) -> Callable[[], object]:
        encoder = _representation().encoder
        loss = losses.TripletMarginLoss(distance=distance)
        optimizer = torch.optim.Adam([p for m in (encoder, distance) for p in m.parameters() if p.requires_grad])

        def update() -> None:
            optimizer.zero_grad()
            loss(encoder(pictures), labels).backward()
            optimizer.step()

        return update

    return {
        "plain": make(LpDistance(normalize_embeddings=False)),
        "l2": make(LatentDistance("l2", latent_dim=50)),
        "pamd": make(LatentDistance("pamd", latent_dim=50)),
    }


def _pictures() -> torch.Tensor:
    return torch.randint(256, (BATCH, *SHAPE), dtype=torch.uint8)
