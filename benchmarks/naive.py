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
from pamd.latents import BatchLatents, Copy, Observation
from pamd.learners import Step
from pamd.learners.sac import Sac
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
        learner, representation, step = self.learner, self.representation, Step(0, self.updates)
        critic, metrics = learner.critic_loss(batch, self._passes(batch), step, self.generator)
        losses = [Loss(self.method.critic_weight * critic, metrics)]
        losses += self._terms(batch, self.method.terms_in("critic"))
        self._step(losses, "critic")
        second = self._terms(batch, self.method.terms_in("representation"))
        if second:
            self._step(second, "representation")
        losses += second
        if learner.config.due(learner.config.actor_every, self.updates):
            losses += self._actor(batch)
        learner.update_targets(step)
        representation.update_targets(at_once=learner.config.in_burst(self.updates))
        return {name: value for loss in losses for name, value in loss.metrics.items()}

    def parameters_as(self, agent: Agent) -> dict[str, Tensor]:
        """Return the parameters with the agent's names and memory layout."""
        found: Any = copy.deepcopy(self.nets)
        _reorder_heads(found["representation"], found["learner"], back=True)
        theirs = agent.nets.state_dict()
        weights = {name: value for name, value in found.state_dict().items() if not name.endswith("updates")}
        return {name: value.view_as(theirs[name]) for name, value in weights.items()}

    def _terms(self, batch: Batch, names: tuple[str, ...]) -> list[Loss]:
        """Compute the models' terms on one pass of the encoder, as research code does, and the metric on its own.

        The metric has the textbook construction of G.
        """
        metric: Any = self.representation.metric
        models, losses = self._passes(batch), list[Loss]()
        for name in names:
            if name != "metric":
                losses += self.representation.losses_of(models, [name]).values()
                continue
            ours, metric.distance = metric.distance, self.distance
            losses += self.representation.losses_of(self._passes(batch), [name]).values()
            metric.distance = ours
        return losses

    def _actor(self, batch: Batch) -> list[Loss]:
        passes = self._passes(batch)
        loss, log_prob = self.learner.actor_loss(passes.features(), passes.latent(), self.generator)
        self._step([loss], "actor")
        temperature = self.learner.temperature_loss(log_prob)
        self._step([temperature], "temperature")
        return [loss, temperature]

    def _passes(self, batch: Batch) -> Any:
        return _Passes(self.representation, batch, self.generator)

    def _step(self, losses: list[Loss], name: str) -> None:
        optimizer = self.optimizers[name]
        optimizer.zero_grad()
        torch.stack([loss.value for loss in losses]).sum().backward()
        optimizer.step()


class _Passes(BatchLatents):
    """The latents of a batch. Each access runs a separate pass, except for the pass with gradient."""

    def __init__(self, representation: Representation, batch: Batch, generator: torch.Generator) -> None:
        copies, terms = dict(representation.target_encoders.items()), dict(representation.terms.items())
        super().__init__(batch, representation.encoder, copies, terms, generator=generator)
        self._z: Tensor | None = None

    def once(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return the result of `compute`, which is computed again for every loss."""
        return compute()

    def features(self, of: Observation = "obs", *, gradient: bool = False) -> Tensor:
        with torch.no_grad():
            return convolve(self.encoder, self._observation(of))

    def latent(self, of: Observation = "obs", copy: Copy = "online", *, gradient: bool = False) -> Tensor:
        if gradient:
            if self._z is None:
                self._z = encode(self.encoder, self._observation(of))
            return self._z
        with torch.no_grad():
            return encode(self.encoder if copy == "online" else self.copies[copy], self._observation(of))


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
    slow: list[Any] = list(representation.target_encoders.values())
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
        groups = [
            {
                "params": [by_name[names[id(p)]] for p in group["params"]],
                **{name: group[name] for name in ("lr", "betas", "weight_decay")},
            }
            for group in optimizer.param_groups
        ]
        made[key] = torch.optim.Adam(groups, foreach=False)
    return made
