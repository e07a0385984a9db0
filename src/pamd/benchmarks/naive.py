"""The yardstick: an update as research code does it.

Every loss runs the encoder for itself, channels first, on pixels that it converts for itself; G is formed for every
pair, with its exact norm; optimisers and targets go tensor by tensor. The losses are the agent's own, on the same
random numbers: `tests/benchmarks/test_naive.py` holds the two to the same parameters after twenty updates. It computes
an ensemble in one batched product, which the research code does member by member: left out in its favour.
"""

from __future__ import annotations

import copy
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.agent import Agent
from pamd.agent.actor import actor_loss
from pamd.agent.critic import bootstrap, critic_loss
from pamd.agent.networks import Networks, follow
from pamd.agent.representation import metric_term, model_term
from pamd.agent.temperature import temperature_loss
from pamd.benchmarks.dense import DensePamd
from pamd.distances.pamd import Pamd
from pamd.nets import Encoder
from pamd.types import Batch, Loss

__all__ = ["NaiveAgent"]


class NaiveAgent:
    """Takes over an agent's weights, method and generator state; only `sequential` has a research counterpart."""

    def __init__(self, agent: Agent) -> None:
        self.method, self.action_dim, self.operator = agent.method, agent.action_dim, agent.operator
        self.nets = copy.deepcopy(agent.nets)
        _channels_first(self.nets)
        self.distance: Any = self.nets.distance
        if isinstance(self.distance, Pamd):
            self.distance = DensePamd(self.distance)
        self.generator = torch.Generator()
        self.generator.set_state(agent.generator.get_state())
        self.optimisers = _optimisers(agent, self.nets)
        self.updates = 0

    def update(self, batch: Batch) -> dict[str, Tensor]:
        self.updates += 1
        method = self.method
        losses = [self._critic(batch)]
        in_critic = method.metric_in == "critic"
        losses += self._metric(batch) if in_critic else []
        self._step(losses, "critic")
        second = self._model(batch) + ([] if in_critic else self._metric(batch))
        if second:
            self._step(second, "representation", "model")
        losses += second
        if self.updates % method.sac.actor_every == 0:
            losses += self._actor(batch)
        if self.updates % method.sac.targets_every == 0:
            follow(self.nets.target_critic, self.nets.critic, method.sac.critic_tau)
            follow(self.nets.target_encoder, self.nets.encoder, method.sac.encoder_tau)
        return {name: value for loss in losses for name, value in loss.metrics.items()}

    def parameters_as(self, agent: Agent) -> dict[str, Tensor]:
        """The parameters under the agent's names, in its order of memory."""
        found = copy.deepcopy(self.nets)
        _reorder_heads(found, back=True)
        return {name: value.view_as(agent.nets.state_dict()[name]) for name, value in found.state_dict().items()}

    def _critic(self, batch: Batch) -> Loss:
        nets, sac = self.nets, self.method.sac
        with torch.no_grad():
            next_features = convolve(nets.encoder, batch.next_obs)
            target_z_next = encode(nets.target_encoder, batch.next_obs)
        target = bootstrap(
            batch,
            nets.actor,
            nets.target_critic,
            next_features,
            target_z_next,
            nets.log_temperature.exp(),
            sac.gamma,
            self.generator,
        )
        loss, metrics = critic_loss(nets.critic, encode(nets.encoder, batch.obs), batch.action, target)
        return Loss(self.method.critic_weight * loss, metrics)

    def _model(self, batch: Batch) -> list[Loss]:
        nets = self.nets
        if nets.transition is None:
            return []
        passes: Any = _Passes(nets, batch)
        return [model_term(self.method, batch, passes, nets.transition, nets.reward_decoder, self.generator)]

    def _metric(self, batch: Batch) -> list[Loss]:
        if self.distance is None or self.operator is None:
            return []
        passes: Any = _Passes(self.nets, batch)
        transition = self.nets.transition
        return [
            metric_term(
                self.method, batch, passes, self.distance, self.distance, self.operator, transition, self.generator
            )
        ]

    def _actor(self, batch: Batch) -> list[Loss]:
        nets = self.nets
        with torch.no_grad():
            features, z = convolve(nets.encoder, batch.obs), encode(nets.encoder, batch.obs)
        loss, log_prob = actor_loss(nets.actor, nets.critic, features, z, nets.log_temperature.exp(), self.generator)
        self._step([loss], "actor")
        temperature = temperature_loss(nets.log_temperature, log_prob, -float(self.action_dim))
        self._step([temperature], "temperature")
        return [loss, temperature]

    def _step(self, losses: list[Loss], *names: str) -> None:
        optimisers = [self.optimisers[name] for name in names if name in self.optimisers]
        for optimiser in optimisers:
            optimiser.zero_grad()
        torch.stack([loss.value for loss in losses]).sum().backward()
        for optimiser in optimisers:
            optimiser.step()


class _Passes:
    """What a loss reads of a batch, each reading a pass of its own but for the one that carries the gradient."""

    def __init__(self, nets: Networks, batch: Batch) -> None:
        self._nets, self._batch = nets, batch
        self.z = encode(nets.encoder, batch.obs)

    def fixed_z(self, which: Literal["online", "ema", "periodic"]) -> Tensor:
        return self._latents(which, self._batch.obs)

    def z_next(self, which: Literal["online", "ema", "periodic"]) -> Tensor:
        return self._latents(which, self._batch.next_obs)

    @torch.no_grad()
    def _latents(self, which: str, obs: Tensor) -> Tensor:
        nets = self._nets
        slow = {"online": nets.encoder, "ema": nets.target_encoder, "periodic": nets.periodic_encoder}[which]
        assert slow is not None
        return encode(slow, obs)


def convolve(encoder: Encoder, obs: Tensor) -> Tensor:
    """[B, C, H, W] -> [B, F], channels first."""
    x = obs.to(torch.get_default_dtype()).contiguous() / 255
    for layer in encoder.convolutions.layers:
        x = F.relu(layer(x))
    return x.flatten(1)


def encode(encoder: Encoder, obs: Tensor) -> Tensor:
    """[B, C, H, W] -> [B, d], channels first."""
    latents: Tensor = encoder.head(convolve(encoder, obs))
    return latents


def _channels_first(nets: Networks) -> None:
    for layer in nets.modules():
        if isinstance(layer, nn.Conv2d):
            layer.weight.data = layer.weight.data.contiguous()
    _reorder_heads(nets, back=False)


def _reorder_heads(nets: Networks, back: bool) -> None:
    """Features come channels first here and channels last in the agent; the heads' weights must follow."""
    filters = nets.encoder.convolutions.layers[-1].out_channels
    slow = [nets.target_encoder, nets.periodic_encoder]
    for part in (nets.encoder, nets.actor, *slow):
        if part is not None:
            weight = part.head.linear.weight
            split = weight.data.unflatten(1, (filters, -1) if back else (-1, filters))
            weight.data = split.transpose(1, 2).flatten(1).contiguous()


def _optimisers(agent: Agent, nets: Networks) -> dict[str, torch.optim.Adam]:
    """The agent's optimisers over the copied networks, tensor by tensor."""
    names = {id(p): name for name, p in agent.nets.named_parameters()}
    own = dict(nets.named_parameters())
    made = {}
    for key, optimiser in agent.optimisers.items():
        (group,) = optimiser.param_groups
        parameters = [own[names[id(p)]] for p in group["params"]]
        options = {name: group[name] for name in ("lr", "betas", "weight_decay")}
        made[key] = torch.optim.Adam(parameters, **options, foreach=False)
    return made
