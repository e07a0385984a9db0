"""All networks of an agent, built from its method, and which optimiser steps which."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from pamd.agent.method import Method, Scale
from pamd.distances import Distance, distance
from pamd.nets import (
    Actor,
    Convolutions,
    Critic,
    DeterministicTransition,
    Encoder,
    EnsembleTransition,
    GaussianTransition,
    RewardDecoder,
    Transition,
)

__all__ = ["Isolated", "Networks", "follow", "load_optimiser", "make_optimisers"]


class Networks(nn.Module):
    """The learned parts and their slow copies; parts that a method does not have are None."""

    def __init__(self, method: Method, scale: Scale, channels: int, action_dim: int) -> None:
        super().__init__()
        d, space, hidden = method.latent_dim, method.latent_space, method.sac.hidden
        convolutions = Convolutions(channels * scale.frame_stack, scale.size, scale.filters, scale.strides)
        self.encoder = Encoder(convolutions, d, space)
        self.critic = Critic(d, action_dim, hidden)
        self.actor = Actor(convolutions.features, d, space, action_dim, hidden)
        self.log_temperature = nn.Parameter(torch.tensor(method.sac.temperature).log())
        self.transition = _transition(method, action_dim)
        self.reward_decoder = RewardDecoder(d) if method.reward_decoder else None
        self.distance: Distance[Any] | None = None
        if method.distance is not None:
            self.distance = distance(method.distance.name, latent_dim=d, **method.distance.options)

        self.isolated = Isolated(method, scale, channels, action_dim) if method.isolate_metric else None
        self.target_encoder = _slow_copy(self.encoder)
        self.target_critic = _slow_copy(self.critic)
        self.periodic_encoder = _periodic_copy(method, self.encoder)
        self.target_distance = None
        if self.distance is not None and method.target_distance == "ema":
            self.target_distance = _slow_copy(self.distance)

    @property
    def measured(self) -> Networks | Isolated:
        """Whose encoder, slow copies and latent model the distance works on."""
        return self.isolated or self


class Isolated(nn.Module):
    """An encoder that nothing but the metric loss trains, its slow copies, and a latent model that learns from it."""

    def __init__(self, method: Method, scale: Scale, channels: int, action_dim: int) -> None:
        super().__init__()
        convolutions = Convolutions(channels * scale.frame_stack, scale.size, scale.filters, scale.strides)
        self.encoder = Encoder(convolutions, method.latent_dim, method.latent_space)
        self.transition = _transition(method, action_dim)
        self.target_encoder = _slow_copy(self.encoder)
        self.periodic_encoder = _periodic_copy(method, self.encoder)


def make_optimisers(method: Method, nets: Networks) -> dict[str, torch.optim.Adam]:
    """The optimisers by name.

    Sequential: the encoder is in the critic's Adam and in the representation's, with a state in each. Joint: one state.
    """
    sac = method.sac
    encoder, critic = list(nets.encoder.parameters()), list(nets.critic.parameters())
    metric = [] if nets.distance is None else list(nets.distance.parameters())
    model = [p for part in (nets.transition, nets.reward_decoder) if part is not None for p in part.parameters()]
    parts = {"critic": encoder + critic, "actor": list(nets.actor.parameters())}
    if nets.isolated is not None:
        parts["isolated"] = [*nets.isolated.encoder.parameters(), *metric]
        metric = []
    with_critic = method.schedule == "joint" or method.metric_in == "critic" or nets.isolated is not None
    if with_critic:
        parts["critic"] = parts["critic"] + metric
    if method.schedule == "sequential" and (model or (nets.distance is not None and not with_critic)):
        parts["representation"] = encoder + ([] if with_critic else metric)
    optimisers = {name: torch.optim.Adam(group, lr=sac.learning_rate, fused=True) for name, group in parts.items()}
    if model:
        optimisers["model"] = torch.optim.Adam(
            model, lr=sac.learning_rate, weight_decay=method.weight_decay, fused=True
        )
    if nets.isolated is not None and nets.isolated.transition is not None:
        optimisers["isolated_model"] = torch.optim.Adam(
            nets.isolated.transition.parameters(), lr=sac.learning_rate, weight_decay=method.weight_decay, fused=True
        )
    optimisers["temperature"] = torch.optim.Adam(
        [nets.log_temperature], lr=sac.temperature_learning_rate, betas=(sac.temperature_beta1, 0.999), fused=True
    )
    return optimisers


def load_optimiser(optimiser: torch.optim.Adam, tensors: Mapping[str, Tensor]) -> None:
    """Take over a state whose names end in ".INDEX.FIELD"."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        *_, index, field = name.split(".")
        like = parameters[int(index)]
        # A file does not keep the order of memory, and the fused step reads moments in the order of the weights.
        own = value.clone() if value.shape != like.shape else torch.empty_like(like).copy_(value)
        state.setdefault(int(index), {})[field] = own
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


@torch.no_grad()
def follow(slow: nn.Module, fast: nn.Module, tau: float) -> None:
    """Move the slow copy towards the fast network by a fraction tau; 1 copies."""
    targets: list[Tensor] = list(slow.parameters())
    sources: list[Tensor] = list(fast.parameters())
    if targets:  # a fixed norm has none
        torch._foreach_lerp_(targets, sources, tau)


def _periodic_copy(method: Method, encoder: Encoder) -> Encoder | None:
    copied: Encoder | None = _slow_copy(encoder) if method.target_encoder == "periodic" else None
    return copied


def _slow_copy(network: Any) -> Any:
    return copy.deepcopy(network).requires_grad_(False)


def _transition(method: Method, action_dim: int) -> Transition | None:
    if method.transition == "none":
        return None
    if method.transition == "ensemble":
        return EnsembleTransition(method.latent_dim, action_dim, method.ensemble)
    kinds = {"deterministic": DeterministicTransition, "gaussian": GaussianTransition}
    return kinds[method.transition](method.latent_dim, action_dim)
