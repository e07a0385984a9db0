"""Latent dynamics: the next latent as a point, a Gaussian, or an ensemble of Gaussians."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from pamd.initialization import Initialization, initialize, initialize_uniform
from pamd.rng import normal_like, one_of

__all__ = [
    "DeterministicTransition",
    "EnsembleTransition",
    "GaussianTransition",
    "Prediction",
    "Transition",
    "TransitionKind",
    "TransitionStd",
    "make_transition",
]

TransitionKind = Literal["none", "deterministic", "gaussian", "ensemble"]

TransitionStd = Literal["sigmoid", "tanh"]
"""How the standard deviation is bounded: by a sigmoid, or by a tanh of its logarithm."""

STD_MIN, STD_MAX = 1e-4, 10.0
HIDDEN = 512


def _unchanged(z: Tensor) -> Tensor:
    return z


class Prediction(NamedTuple):
    """K predictions of the next latent. K is 1 except for an ensemble."""

    mean: Tensor
    """[K, B, d]"""
    log_std: Tensor | None
    """[K, B, d]; None for a point prediction"""
    project: Callable[[Tensor], Tensor] = _unchanged
    """The projection of latents [..., d] into the latent space. The mean is already there; samples are projected."""

    def projected(self, project: Callable[[Tensor], Tensor]) -> Prediction:
        """Return these predictions projected into a latent space."""
        return self._replace(mean=project(self.mean), project=project)

    def loss(self, z_next: Tensor) -> Tensor:
        """Return the mean negative log-likelihood [] of z_next [B, d], without constants.

        For a point prediction, return half the mean squared error.
        """
        if self.log_std is None:
            return (self.mean - z_next).square().mean() / 2
        deviation = (self.mean - z_next) * torch.exp(-self.log_std)
        return (deviation.square() / 2 + self.log_std).mean()

    def member(self, generator: torch.Generator | None) -> Prediction:
        """Return one of the K predictions, drawn uniformly for the whole batch, as a separate prediction."""
        if len(self.mean) == 1:
            return self
        i = one_of(len(self.mean), generator)
        log_std = None if self.log_std is None else self.log_std[i : i + 1]
        return self._replace(mean=self.mean[i : i + 1], log_std=log_std)

    def sample(self, generator: torch.Generator | None) -> Tensor:
        """Draw one next latent per row from the first member: [B, d]. A point prediction returns its mean."""
        if self.log_std is None:
            return self.mean[0]
        return self.project(self.mean[0] + self.log_std[0].exp() * normal_like(self.mean[0], generator))


ALL = slice(None)


class Transition(nn.Module, ABC):
    """The base class of latent dynamics: z [B, d], action [B, A] -> Prediction."""

    members: int = 1
    """K, the number of predictions."""

    @abstractmethod
    def forward(self, z: Tensor, action: Tensor, members: slice = ALL) -> Prediction:
        """Predict from z [B, d] and action [B, A]. Only the members in `members` are computed."""

    def one(self, generator: torch.Generator | None) -> slice:
        """Draw one member uniformly and return its slice."""
        i = one_of(self.members, generator) if self.members > 1 else 0
        return slice(i, i + 1)


class DeterministicTransition(Transition):
    """d + A -> 512 -> LayerNorm -> ReLU -> d."""

    def __init__(self, latent_dim: int, action_dim: int, init: Initialization) -> None:
        super().__init__()
        self.layers = _one_hidden_layer(latent_dim + action_dim, latent_dim, init)

    def forward(self, z: Tensor, action: Tensor, members: slice = ALL) -> Prediction:
        return Prediction(self.layers(torch.cat([z, action], dim=-1))[None], None)


class GaussianTransition(Transition):
    """d + A -> 512 -> LayerNorm -> ReLU -> mean and raw standard deviation, d each."""

    def __init__(self, latent_dim: int, action_dim: int, init: Initialization, std: TransitionStd) -> None:
        super().__init__()
        self.std = std
        self.layers = _one_hidden_layer(latent_dim + action_dim, 2 * latent_dim, init)

    def forward(self, z: Tensor, action: Tensor, members: slice = ALL) -> Prediction:
        mean, raw = self.layers(torch.cat([z, action], dim=-1))[None].chunk(2, dim=-1)
        return Prediction(mean, bounded_log_std(raw, self.std))


class EnsembleTransition(Transition):
    """K networks d + A -> 512 -> 512 -> 2d, independently initialized and computed as batched products."""

    def __init__(
        self, latent_dim: int, action_dim: int, init: Initialization, std: TransitionStd, members: int
    ) -> None:
        super().__init__()
        self.std, self.members = std, members
        sizes = (latent_dim + action_dim, HIDDEN, HIDDEN, 2 * latent_dim)
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for n_in, n_out in itertools.pairwise(sizes):
            weight, bias = torch.empty(members, n_in, n_out), torch.zeros(members, 1, n_out)
            if init == "pytorch":
                initialize_uniform(weight, n_in)
                initialize_uniform(bias, n_in)
            else:
                for k in range(members):
                    nn.init.orthogonal_(weight[k])
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(bias))

    def forward(self, z: Tensor, action: Tensor, members: slice = ALL) -> Prediction:
        x = torch.cat([z, action], dim=-1).expand(len(self.weights[0][members]), -1, -1)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias[members], torch.relu(x) if layer else x, weight[members])
        mean, raw = x.chunk(2, dim=-1)
        return Prediction(mean, bounded_log_std(raw, self.std))


def bounded_log_std(raw: Tensor, std: TransitionStd) -> Tensor:
    """Map any real to log sigma, with sigma in [1e-4, 10]. At raw = 0, sigma is 5 ("sigmoid") or 0.03 ("tanh")."""
    if std == "sigmoid":
        # The sum of two positive terms has no cancellation, and the slope of the logarithm is at most 1.
        return torch.log(STD_MIN + (STD_MAX - STD_MIN) * torch.sigmoid(raw))
    low, high = math.log(STD_MIN), math.log(STD_MAX)
    return low + (high - low) / 2 * (torch.tanh(raw) + 1)


def make_transition(
    kind: TransitionKind,
    latent_dim: int,
    action_dim: int,
    *,
    members: int = 5,
    init: Initialization = "orthogonal",
    std: TransitionStd = "tanh",
) -> Transition | None:
    """Return the latent dynamics of this kind; None for "none"."""
    if kind == "none":
        return None
    if kind == "ensemble":
        return EnsembleTransition(latent_dim, action_dim, init, std, members)
    if kind == "gaussian":
        return GaussianTransition(latent_dim, action_dim, init, std)
    return DeterministicTransition(latent_dim, action_dim, init)


def _one_hidden_layer(inputs: int, outputs: int, init: Initialization) -> nn.Sequential:
    """Return the layers inputs -> 512 -> LayerNorm -> ReLU -> outputs."""
    layers = nn.Sequential(nn.Linear(inputs, HIDDEN), nn.LayerNorm(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs))
    if init == "orthogonal":
        initialize(layers)
    return layers
