"""The reference implementation: an update in the style of typical research code.

Each loss converts the pixels and runs the encoder separately, with channels first. G is built for every pair, with its
exact norm. Optimizers and target networks are updated tensor by tensor. The losses and random numbers are those of the
agent: `tests/benchmarks/test_naive.py` checks that both have the same parameters after twenty updates. An ensemble is
computed in one batched product. Typical research code loops over its members, so this favors the reference.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.agent import Agent
from pamd.distances import Distance
from pamd.distances.pamd import Pamd
from pamd.distances.quadratic import PairConditionedConfig
from pamd.learners import Step
from pamd.learners.sac import Sac
from pamd.optimization import follow
from pamd.representation import LatentEncoder, Representation
from pamd.types import Batch, Loss

__all__ = ["DensePamd", "NaiveAgent"]


class DensePamd(Distance[PairConditionedConfig]):
    """A copy of a `pamd` distance that computes values with `Pamd.textbook`. It is not registered."""

    Config = PairConditionedConfig

    def __init__(self, like: Pamd) -> None:
        super().__init__(like.latent_dim, like.config)
        self.like = like

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return self.like.textbook(z, z_prime)[0]

    def _value_and_penalty(
        self, z: Tensor, z_prime: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor | None]:
        return self.like.textbook(z, z_prime)


class NaiveAgent:
    """A copy of an agent's weights, method and generator state. It supports only SAC and the sequential schedule."""

    def __init__(self, agent: Agent) -> None:
        self.method = agent.config.method
        self.nets = copy.deepcopy(agent.nets)
        representation, learner = self.nets["representation"], self.nets["learner"]
        assert isinstance(representation, Representation)
        assert isinstance(learner, Sac)
        self.representation, self.learner = representation, learner
        _channels_first(representation, learner)
        self.generator = torch.Generator()
        self.generator.set_state(agent.generator.get_state())
        self.optimizers = _optimizers(agent, self.nets)
        self.distance: Any = representation.distance
        if isinstance(self.distance, Pamd):
            self.distance = DensePamd(self.distance)
        self.updates = 0

    def update(self, batch: Batch) -> dict[str, Tensor]:
        self.updates += 1
        method, learner, step = self.method, self.learner, Step(0, self.updates)
        critic, metrics = learner.critic_loss(batch, self._passes(batch), step, self.generator)
        losses = [Loss(method.critic_weight * critic, metrics)]
        in_critic = method.metric_in == "critic"
        losses += self._metric(batch) if in_critic else []
        self._step(losses, "critic")
        second = self._model(batch) + ([] if in_critic else self._metric(batch))
        if second:
            self._step(second, "representation", "model")
        losses += second
        if learner.config.due(learner.config.actor_every, self.updates):
            losses += self._actor(batch)
        learner.follow(step)
        turn = (self.updates + method.follow_offset) % method.follow_every == 0
        if turn or learner.config.in_burst(self.updates):
            follow(self.representation.slow_encoders["ema"], self.representation.encoder, method.encoder_tau)
        return {name: value for loss in losses for name, value in loss.metrics.items()}

    def parameters_as(self, agent: Agent) -> dict[str, Tensor]:
        """Return the parameters with the agent's names and memory layout."""
        found: Any = copy.deepcopy(self.nets)
        _reorder_heads(found["representation"], found["learner"], back=True)
        theirs = agent.nets.state_dict()
        weights = {name: value for name, value in found.state_dict().items() if not name.endswith("updates")}
        return {name: value.view_as(theirs[name]) for name, value in weights.items()}

    def _model(self, batch: Batch) -> list[Loss]:
        given = (batch.action, batch.reward, self.generator)
        return list(self.representation.model_losses(self._passes(batch), *given).values())

    def _metric(self, batch: Batch) -> list[Loss]:
        if self.distance is None:
            return []
        given = (batch.action, batch.reward, self.generator)
        ours, self.representation.distance = self.representation.distance, self.distance
        losses = self.representation.metric_losses(self._passes(batch), *given)
        self.representation.distance = ours
        return list(losses.values())

    def _actor(self, batch: Batch) -> list[Loss]:
        passes = self._passes(batch)
        loss, log_prob = self.learner.actor_loss(passes.fixed_features, passes.actor_z, self.generator)
        self._step([loss], "actor")
        temperature = self.learner.temperature_loss(log_prob)
        self._step([temperature], "temperature")
        return [loss, temperature]

    def _passes(self, batch: Batch) -> Any:
        return _Passes(self.representation, batch)

    def _step(self, losses: list[Loss], *names: str) -> None:
        optimizers = [self.optimizers[name] for name in names if name in self.optimizers]
        for optimizer in optimizers:
            optimizer.zero_grad()
        torch.stack([loss.value for loss in losses]).sum().backward()
        for optimizer in optimizers:
            optimizer.step()


class _Passes:
    """The latents of a batch. Each access runs a separate pass, except for the pass with gradient."""

    def __init__(self, representation: Representation, batch: Batch) -> None:
        self._representation, self._batch = representation, batch
        self._z: Tensor | None = None

    @property
    def z(self) -> Tensor:
        if self._z is None:
            self._z = encode(self._representation.encoder, self._batch.obs)
        return self._z

    @property
    def return_features(self) -> Tensor:
        return self._features(self._batch.next_obs)

    @property
    def fixed_features(self) -> Tensor:
        return self._features(self._batch.obs)

    @property
    def actor_z(self) -> Tensor:
        return self._latents("online", self._batch.obs)

    def once(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return the result of `compute`, which is recomputed for every loss."""
        return compute()

    def return_z(self, which: str) -> Tensor:
        return self._latents(which, self._batch.next_obs)

    def fixed_z(self, which: str) -> Tensor:
        return self._latents(which, self._batch.obs)

    def z_next(self, which: str) -> Tensor:
        return self._latents(which, self._batch.next_obs)

    @torch.no_grad()
    def _features(self, obs: Tensor) -> Tensor:
        return convolve(self._representation.encoder, obs)

    @torch.no_grad()
    def _latents(self, which: str, obs: Tensor) -> Tensor:
        part = self._representation
        encoder: Any = part.encoder if which == "online" else part.slow_encoders[which]
        return encode(encoder, obs)


def convolve(encoder: LatentEncoder, obs: Tensor) -> Tensor:
    """Compute convolutional features: [B, C, H, W] -> [B, F], channels first."""
    x = obs.to(torch.get_default_dtype()).contiguous() / 255
    for layer in encoder.network.layers:
        x = F.relu(layer(x))
    return x.flatten(1)


def encode(encoder: LatentEncoder, obs: Tensor) -> Tensor:
    """Compute latents: [B, C, H, W] -> [B, d], channels first."""
    return encoder.head(convolve(encoder, obs))


def _channels_first(representation: Representation, learner: Sac) -> None:
    for layer in representation.modules():
        if isinstance(layer, nn.Conv2d):
            layer.weight.data = layer.weight.data.contiguous()
    _reorder_heads(representation, learner, back=False)


def _reorder_heads(representation: Representation, learner: Sac, back: bool) -> None:
    """Reorder the weights of the heads: features are channels first here and channels last in the agent."""
    slow: list[Any] = list(representation.slow_encoders.values())
    filters = representation.encoder.network.layers[-1].out_channels
    for head in [learner.actor.head, *(encoder.network.head for encoder in (representation.encoder, *slow))]:
        split = head.weight.data.unflatten(1, (filters, -1) if back else (-1, filters))
        head.weight.data = split.transpose(1, 2).flatten(1).contiguous()


def _optimizers(agent: Agent, nets: nn.Module) -> dict[str, torch.optim.Adam]:
    """Make the agent's optimizers for the copied networks, without fused updates."""
    names = {id(p): name for name, p in agent.nets.named_parameters()}
    by_name = dict(nets.named_parameters())
    made = {}
    for key, optimizer in agent.optimizers.items():
        (group,) = optimizer.param_groups
        parameters = [by_name[names[id(p)]] for p in group["params"]]
        options = {name: group[name] for name in ("lr", "betas", "weight_decay")}
        made[key] = torch.optim.Adam(parameters, **options, foreach=False)
    return made
