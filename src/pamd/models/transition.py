"""Latent dynamics: the next latent as a point, a Gaussian, or an ensemble of Gaussians."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from pamd.draws import normal_like, one_of
from pamd.initialisation import initialise

__all__ = [
    "DeterministicTransition",
    "EnsembleTransition",
    "GaussianTransition",
    "Prediction",
    "Transition",
    "TransitionKind",
    "make_transition",
]

TransitionKind = Literal["none", "deterministic", "gaussian", "ensemble"]

LOG_STD_MIN, LOG_STD_MAX = math.log(1e-4), math.log(10.0)


class Prediction(NamedTuple):
    """K predictions of the next latent; K = 1 but for an ensemble."""

    mean: Tensor
    """[K, B, d]"""
    log_std: Tensor | None
    """[K, B, d]; None: a point prediction"""

    def loss(self, z_next: Tensor) -> Tensor:
        """Mean negative log-likelihood [] of z_next [B, d], constants dropped; half the squared error for a point."""
        if self.log_std is None:
            return (self.mean - z_next).square().mean() / 2
        deviation = (self.mean - z_next) * torch.exp(-self.log_std)
        return (deviation.square() / 2 + self.log_std).mean()

    def member(self, generator: torch.Generator | None) -> Prediction:
        """One of the K predictions, drawn uniformly for the whole batch, as a prediction of its own."""
        if len(self.mean) == 1:
            return self
        i = one_of(len(self.mean), generator)
        return Prediction(self.mean[i : i + 1], None if self.log_std is None else self.log_std[i : i + 1])

    def sample(self, generator: torch.Generator | None) -> Tensor:
        """One next latent per row, from the first member: [B, d]. A point prediction is its own sample."""
        if self.log_std is None:
            return self.mean[0]
        return self.mean[0] + self.log_std[0].exp() * normal_like(self.mean[0], generator)


class Transition(nn.Module, ABC):
    """z [B, d], action [B, A] -> a Prediction."""

    @abstractmethod
    def forward(self, z: Tensor, action: Tensor) -> Prediction:
        """z: [B, d], action: [B, A]"""


class DeterministicTransition(Transition):
    """d + A -> 512 -> LayerNorm -> ReLU -> d."""

    def __init__(self, latent_dim: int, action_dim: int, hidden: int = 512) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(latent_dim + action_dim, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, latent_dim)
        )
        initialise(self)

    def forward(self, z: Tensor, action: Tensor) -> Prediction:
        return Prediction(self.layers(torch.cat([z, action], dim=-1))[None], None)


class GaussianTransition(Transition):
    """d + A -> 512 -> LayerNorm -> ReLU -> mean and log std, d each."""

    def __init__(self, latent_dim: int, action_dim: int, hidden: int = 512) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(latent_dim + action_dim, hidden),
            nn.LayerNorm(hidden),
            nn.ReLU(),
            nn.Linear(hidden, 2 * latent_dim),
        )
        initialise(self)

    def forward(self, z: Tensor, action: Tensor) -> Prediction:
        mean, raw = self.layers(torch.cat([z, action], dim=-1))[None].chunk(2, dim=-1)
        return Prediction(mean, _squash(raw))


class EnsembleTransition(Transition):
    """K nets d + A -> 512 -> 512 -> 2d, independently initialised, computed as one batched product."""

    def __init__(self, latent_dim: int, action_dim: int, members: int = 5, hidden: int = 512) -> None:
        super().__init__()
        sizes = (latent_dim + action_dim, hidden, hidden, 2 * latent_dim)
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for n_in, n_out in itertools.pairwise(sizes):
            weight = torch.empty(members, n_in, n_out)
            for k in range(members):
                nn.init.orthogonal_(weight[k])
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(members, 1, n_out)))

    def forward(self, z: Tensor, action: Tensor) -> Prediction:
        x = torch.cat([z, action], dim=-1).expand(len(self.weights[0]), -1, -1)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, torch.relu(x) if layer else x, weight)
        mean, raw = x.chunk(2, dim=-1)
        return Prediction(mean, _squash(raw))


def _squash(raw: Tensor) -> Tensor:
    """Any real -> a log std within its bounds."""
    return LOG_STD_MIN + (LOG_STD_MAX - LOG_STD_MIN) / 2 * (torch.tanh(raw) + 1)


def make_transition(kind: TransitionKind, latent_dim: int, action_dim: int, members: int) -> Transition | None:
    """The latent dynamics of that kind; None for "none"."""
    if kind == "none":
        return None
    if kind == "ensemble":
        return EnsembleTransition(latent_dim, action_dim, members)
    kinds = {"deterministic": DeterministicTransition, "gaussian": GaussianTransition}
    return kinds[kind](latent_dim, action_dim)
