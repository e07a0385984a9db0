"""TorchRL, Tianshou and pytorch-metric-learning with and without pamd, if they are installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from pamd.encoders import encoder as make_encoder
from pamd.representation import Representation

__all__ = ["make_updates"]

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
    given = {"observation": _pictures(), "action": torch.randint(ACTIONS, (BATCH,)), "next": after}
    batch = TensorDict(given, [BATCH])

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
            metric.follow()

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
