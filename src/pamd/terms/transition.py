"""The transition term: a latent model that predicts the next latent as a point, a Gaussian, or an ensemble."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import torch
from annotated_types import Le
from torch import Tensor, nn

from pamd.errors import ConfigError
from pamd.initialization import Initialization, initialize, initialize_uniform
from pamd.latents import BatchLatents, Copy
from pamd.rng import normal_like, one_of
from pamd.schema import Count, NonNegative, record
from pamd.terms.base import TERMS, Term
from pamd.types import Batch, Loss

STD_MIN, STD_MAX = 1e-4, 10.0
HIDDEN = 512
_ALL = slice(None)


@record
class TransitionConfig:
    """The options of `transition`."""

    kind: Literal["deterministic", "gaussian", "ensemble"] = "deterministic"
    """A point, a diagonal Gaussian, or an ensemble of Gaussians."""
    members: Annotated[Count, Le(1000)] = 5
    """Number of members of an ensemble. Each is a separate network, so a mistyped number would fill the memory."""
    std: Literal["sigmoid", "tanh"] = "tanh"
    """How the standard deviation is bounded: by a sigmoid, or by a tanh of its logarithm."""
    init: Initialization = "orthogonal"
    """How the weights are initialized."""
    next_encoder: Literal["online", "ema"] = "online"
    """The copy of the encoder that computes the next latents to predict."""
    project: bool | None = None
    """Whether to project predictions into the latent space. None: only for the ball, which requires it."""
    weight: NonNegative = 1.0
    """Weight of the loss."""
    weight_decay: NonNegative = 1e-7
    """Weight decay of the latent model."""


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


@TERMS.register("transition")
class Transition(Term[TransitionConfig]):
    """Half the squared error, or the negative log-likelihood, of the next latent given z and the action.

    The next latents carry no gradient. A point or a Gaussian is d + A -> 512 -> LayerNorm -> ReLU -> outputs. A member
    of an ensemble is d + A -> 512 -> 512 -> 2d.
    """

    Config = TransitionConfig

    def __init__(self, config: TransitionConfig, latent_dim: int, action_dim: int) -> None:
        super().__init__(config, latent_dim, action_dim)
        self.members = config.members if config.kind == "ensemble" else 1
        inputs, outputs = latent_dim + action_dim, latent_dim if config.kind == "deterministic" else 2 * latent_dim
        self.model: nn.Module
        if config.kind == "ensemble":
            self.model = _Ensemble(inputs, outputs, config)
        else:
            self.model = nn.Sequential(
                nn.Linear(inputs, HIDDEN), nn.LayerNorm(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs)
            )
            if config.init == "orthogonal":
                initialize(self.model)

    def loss(self, latents: BatchLatents, batch: Batch) -> Loss:
        loss = self.prediction(latents).loss(latents.latent("next_obs", self.config.next_encoder))
        return Loss(self.config.weight * loss, {"transition_loss": loss.detach()})

    def prediction(self, latents: BatchLatents) -> Prediction:
        """Return the predictions from the online latents of a batch, with gradient. All terms share them."""
        return latents.once("prediction", lambda: self.predict(latents, latents.z, latents.batch.action))

    def predict_by_one(self, latents: BatchLatents, z: Tensor, action: Tensor) -> Prediction:
        """Return the prediction of one member from z [B, d]. The member is drawn for the whole batch."""
        i = one_of(self.members, latents.generator) if self.members > 1 else 0
        return self.predict(latents, z, action, slice(i, i + 1))

    def predict(self, latents: BatchLatents, z: Tensor, action: Tensor, members: slice = _ALL) -> Prediction:
        """Return the predictions of `members` from z [B, d] and action [B, A], projected if the method says so."""
        joined = torch.cat([z, action], dim=-1)
        output = self.model(joined, members) if isinstance(self.model, _Ensemble) else self.model(joined)[None]
        if self.config.kind == "deterministic":
            predicted = Prediction(output, None)
        else:
            mean, raw = output.chunk(2, dim=-1)
            predicted = Prediction(mean, _bounded_log_std(raw, self.config.std))
        if not self.config.project:
            return predicted
        project = latents.encoder.space
        return predicted._replace(mean=project(predicted.mean), project=project)

    @classmethod
    def check(cls, config: TransitionConfig, method: Any) -> None:
        if method.latent_space == "ball" and config.project is False:
            raise ConfigError(
                f'method {method.name!r}: latent_space "ball" requires projected predictions, otherwise targets exceed'
                " the largest value of the distance; set method.transition.project=true"
            )

    @classmethod
    def resolve(cls, config: TransitionConfig, method: Any) -> TransitionConfig:
        projects = method.latent_space == "ball" if config.project is None else config.project
        return dataclasses.replace(config, project=projects)

    @classmethod
    def copies(cls, config: TransitionConfig) -> frozenset[Copy]:
        return frozenset({config.next_encoder})


class _Ensemble(nn.Module):
    """K networks inputs -> 512 -> 512 -> outputs, independently initialized and computed as batched products."""

    def __init__(self, inputs: int, outputs: int, config: TransitionConfig) -> None:
        super().__init__()
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for n_in, n_out in itertools.pairwise((inputs, HIDDEN, HIDDEN, outputs)):
            weight, bias = torch.empty(config.members, n_in, n_out), torch.zeros(config.members, 1, n_out)
            if config.init == "pytorch":
                initialize_uniform(weight, n_in)
                initialize_uniform(bias, n_in)
            else:
                for k in range(config.members):
                    nn.init.orthogonal_(weight[k])
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(bias))

    def forward(self, x: Tensor, members: slice) -> Tensor:
        """Compute the outputs of the chosen members: [B, inputs] -> [K, B, outputs]."""
        layers: list[tuple[Tensor, Tensor]] = list(zip(self.weights, self.biases, strict=True))
        if members != _ALL:  # The gradient of a slice is a copy as large as all weights.
            layers = [(weight[members], bias[members]) for weight, bias in layers]
        x = x.expand(len(layers[0][0]), -1, -1)
        for layer, (weight, bias) in enumerate(layers):
            x = torch.baddbmm(bias, torch.relu(x) if layer else x, weight)
        return x


def _bounded_log_std(raw: Tensor, std: str) -> Tensor:
    """Map any real to log sigma, with sigma in [1e-4, 10]. At raw = 0, sigma is 5 ("sigmoid") or 0.03 ("tanh")."""
    if std == "sigmoid":
        # The sum of two positive terms has no cancellation, and the slope of the logarithm is at most 1.
        return torch.log(STD_MIN + (STD_MAX - STD_MIN) * torch.sigmoid(raw))
    low, high = math.log(STD_MIN), math.log(STD_MAX)
    return low + (high - low) / 2 * (torch.tanh(raw) + 1)
