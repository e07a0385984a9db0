"""Metric losses for an SB3 algorithm. Their gradient reaches the encoder through the critic's backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import preprocess_obs
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

from pamd.errors import ConfigError
from pamd.integrations.requirements import check_single_transitions
from pamd.latents import Copy, Observation
from pamd.methods import Method
from pamd.optimization import adam
from pamd.representation import Representation
from pamd.types import OperatorInputs


@dataclass(frozen=True)
class Transitions:
    """B transitions sampled by the algorithm."""

    obs: Tensor
    """[B, ...], not preprocessed"""
    action: Tensor
    """[B, A] floats, or [B] int64"""
    reward: Tensor
    """[B]"""
    next_obs: Tensor
    """[B, ...]"""
    not_done: Tensor
    """[B]: 0 if the episode terminated, otherwise 1, including time limits"""


@dataclass(frozen=True)
class MetricOptions:
    """The options of `with_metric`."""

    method: Method
    """The behavioral metric method."""
    weight: float = 1.0
    """The weight of the method's gradient in the encoder. With 0, only the method's own networks are trained."""
    extra_passes: bool = False
    """Whether to run additional encoder passes on states and next states if the method needs them."""
    learning_rate: float | None = None
    """The learning rate of the method's own networks; None uses the algorithm's schedule."""

    def __post_init__(self) -> None:
        if not 0 <= self.weight < float("inf"):
            raise ConfigError(f"with_metric: weight must be finite and at least 0, got {self.weight}")
        if self.learning_rate is not None and not 0 < self.learning_rate < float("inf"):
            raise ConfigError(f"with_metric: learning_rate must be finite and above 0, got {self.learning_rate}")
        if not self.method.terms:
            raise ConfigError(f"with_metric: method {self.method.name!r} has no loss to add")
        check_single_transitions("with_metric", self.method)


@dataclass(frozen=True)
class Extractors:
    """The feature extractors that the metric reads."""

    policy: BasePolicy
    online: BaseFeaturesExtractor
    """The critic's extractor, which the metric trains."""
    target: BaseFeaturesExtractor | None
    """The target network's extractor, a target copy of the encoder. None if the algorithm has no target network."""

    def features(self, copy: Copy, obs: Tensor) -> Tensor:
        """Compute features [B, F] of obs [B, ...] in a separate pass without gradient."""
        extractor = self.online if copy == "online" else self.target
        assert extractor is not None
        with torch.no_grad():
            prepared = preprocess_obs(obs, self.policy.observation_space, self.policy.normalize_images)
            features: Tensor = extractor(prepared)
        return features


def without_extra_passes(method: Method, *, has_target: bool) -> Method:
    """Return a variant of `method` that uses only the forward passes of the algorithm's own update, if possible.

    Its model predicts from the critic's latents and learns to predict the target network's next latents. The keys of
    `curl` always cost a pass of the target network.
    """
    if has_target and method.term("transition") is not None:
        method = method.with_term("transition", next_encoder="ema")
    metric = method.metric
    if metric is not None and metric.right == "online" and not ("z_next" in method.operator_needs and has_target):
        method = method.with_term("metric", target_encoder="online")
    return method


class Metric(nn.Module):
    """A `Representation` on features of the critic's extractor, with its own optimizer and generator.

    The features of a `LatentCNN` or `LatentMLP` are latents. Other features are projected to d dimensions by a linear
    layer, which belongs to the metric. While the metric is `attached`, it intercepts the critic's forward pass, which
    is the first pass with gradient after a sample. The losses are computed on the features of this pass, and their
    gradient is added in the backward pass.
    """

    def __init__(
        self,
        options: MetricOptions,
        extractors: Extractors,
        *,
        action_dim: int,
        gamma: float,
        learning_rate: float,
        seed: int,
    ) -> None:
        super().__init__()
        method, self.options, self.extractors = options.method, options, extractors
        if method.term("curl") is not None:  # only the critic's own pass has a gradient
            method = method.with_term("curl", query="given")
        if not options.extra_passes:
            method = without_extra_passes(method, has_target=extractors.target is not None)
        width, d = extractors.online.features_dim, method.latent_dim
        latent = hasattr(extractors.online, "latent_space")
        encoder = nn.Identity() if latent else nn.Linear(width, d)
        self.representation = Representation(
            method, encoder=encoder, action_dim=action_dim, gamma=gamma, normalized=latent
        )
        if latent:
            self.representation.encoder.requires_grad_(False)  # The extractor itself computes the latents.
        groups = self.representation.parameter_groups()
        self.optimizer = adam(groups, options.learning_rate or learning_rate) if groups else None
        self.generator = torch.Generator().manual_seed(seed)
        self._batch: Transitions | None = None
        self._features: dict[tuple[Observation, Copy], Tensor] = {}
        self._logged: list[dict[str, Tensor]] = []

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Register hooks on the extractors, and remove them at the end of the context."""
        online, target = self.extractors.online, self.extractors.target
        hooks = [online.register_forward_hook(self._on_states)]
        if target is not None:
            hooks.append(target.register_forward_hook(self._on_next_states))
        try:
            yield
        finally:
            self._batch = None
            for hook in hooks:
                hook.remove()

    def sampled(self, batch: Transitions) -> None:
        """Store the transitions that the algorithm has sampled for its next update."""
        self._batch, self._features = batch, {}

    def metrics(self) -> dict[str, float]:
        """Return the means of the metrics since the last call."""
        logged, self._logged = self._logged, []
        names = logged[0] if logged else {}
        return {name: float(torch.stack([entry[name] for entry in logged]).mean()) for name in names}

    def get_extra_state(self) -> Tensor:
        return self.generator.get_state()

    def set_extra_state(self, state: Tensor) -> None:
        self.generator.set_state(state.cpu())

    def _on_next_states(self, module: nn.Module, inputs: Any, features: Tensor) -> None:
        """Store the target network's features of the next states. They are used for every target copy."""
        if self._batch is not None and not self._features and len(features) == len(self._batch.next_obs):
            self._features = {("next_obs", "ema"): features.detach(), ("next_obs", "periodic"): features.detach()}

    def _on_states(self, module: nn.Module, inputs: Any, features: Tensor) -> None:
        if self._batch is None or not features.requires_grad:
            return
        batch, self._batch = self._batch, None
        gradient = self._learn(batch, features.detach())
        if self.options.weight:
            features.register_hook(lambda critic_grad: critic_grad + self.options.weight * gradient)

    def _learn(self, batch: Transitions, features: Tensor) -> Tensor:
        """Update the method's own networks and return the gradient of the losses with respect to features [B, F]."""
        known = {**self._features, ("obs", "online"): features.requires_grad_()}

        def source(of: Observation | Tensor, copy: Copy) -> Tensor:
            # The representation's encoder reads features. Those that the algorithm has not computed cost a pass.
            if isinstance(of, Tensor):
                return self.extractors.features(copy, of)
            if (of, copy) in known:
                return known[of, copy]
            return self.extractors.features(copy, batch.obs if of == "obs" else batch.next_obs)

        rep = self.representation
        with torch.enable_grad():
            latents = rep.batch_latents(
                batch.obs,
                batch.action,
                batch.reward,
                batch.next_obs,
                generator=self.generator,
                inputs=OperatorInputs(not_done=batch.not_done),
                source=source,
            )
            losses = rep.losses_of(latents)
            if self.optimizer is not None:
                self.optimizer.zero_grad()
            losses.total.backward()
        if self.optimizer is not None:
            self.optimizer.step()
        rep.update_targets()
        self._logged.append({**losses.metrics, "loss": losses.total.detach()})
        assert features.grad is not None
        return features.grad
