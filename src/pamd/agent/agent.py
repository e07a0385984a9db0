"""The agent: one encoder that a representation and a learner share, and a training schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pamd.agent.config import AgentConfig
from pamd.agent.optimizers import make_optimizers
from pamd.errors import CheckpointError, DtypeError, ShapeError
from pamd.learners import Learner, Step
from pamd.optimization import descend, load_optimizer
from pamd.representation import CachedLatents, LatentEncoder, Representation
from pamd.rng import fitting_state, seeded
from pamd.types import Batch, Extras, Loss

__all__ = ["Agent", "Parts", "build_parts"]


class Parts(NamedTuple):
    """The networks of an agent."""

    learner: Learner[Any]
    representation: Representation
    isolated: Representation | None
    """The representation that has the metric loss, if the run isolates it."""

    def modules(self) -> nn.ModuleDict:
        """Return the parts by name."""
        return nn.ModuleDict({name: part for name, part in self._asdict().items() if part is not None})


def build_parts(config: AgentConfig, observation_shape: tuple[int, ...], action_dim: int) -> Parts:
    """Build the networks. Their weights are drawn from torch's global generator."""

    def build_encoder() -> LatentEncoder:
        network = config.encoder.cls(config.encoder.options, observation_shape, method.latent_dim)
        return LatentEncoder.from_method(network, method)

    method, cls = config.method, config.learner.cls
    encoder = build_encoder()
    learner = cls(config.learner.options, encoder, action_dim)
    trained = method.without_metric if config.isolate_metric else method
    representation = Representation(trained, encoder=encoder, action_dim=action_dim, slow_encoder=cls.slow_encoder)
    if not config.isolate_metric:
        return Parts(learner, representation, None)
    second = Representation(method.metric_alone, encoder=build_encoder(), action_dim=action_dim)
    return Parts(learner, representation, second)


class Agent:
    """An agent that acts and learns. All its randomness comes from one generator, which is part of its state."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        observation_shape: tuple[int, ...],
        action_dim: int,
        seed: int,
        device: str | torch.device = "cpu",
    ) -> None:
        self.config, self.observation_shape, self.action_dim = config, tuple(observation_shape), action_dim
        self.device, self.updates = torch.device(device), 0
        # The weights depend only on the seed, not on earlier random draws of the process.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            parts = build_parts(config, self.observation_shape, action_dim)
        self.learner, self.representation, self.isolated = parts
        self.nets = parts.modules().to(self.device)
        self.generator = seeded(seed, self.device)
        augmentation = config.learner.options.augmentation
        self.augment = augmentation.cls(augmentation.options)
        self.optimizers = make_optimizers(config, self.learner, self.representation, self.isolated)

    @property
    def measured(self) -> Representation:
        """The representation that has the metric loss: the second one if the metric is isolated."""
        return self.isolated or self.representation

    @torch.no_grad()
    def act(self, obs: NDArray[Any], *, explore: bool = False, decisions: int = 0) -> NDArray[np.float32]:
        """Return actions for one observation [...] or a batch [B, ...]: sampled to explore, else the policy's mode."""
        single, batch = self._checked(obs)
        features = self.representation.encoder.trunk(batch.to(self.device))
        step = Step(decisions, self.updates)
        action = self.learner.act(features, explore=explore, step=step, generator=self.generator)
        chosen: NDArray[np.float32] = action.float().cpu().numpy()
        return chosen[0] if single else chosen

    def update(self, batch: Batch, decisions: int = 0) -> dict[str, Tensor]:
        """Run one update: the critic, then transition and metric, then the policy, then the slow copies."""
        self.updates += 1
        step = Step(decisions, self.updates)
        batch = self._augmented(batch)
        for part in filter(None, (self.representation, self.isolated)):
            part.encoder.observe(batch.reward)
        latents = self._cache(self.representation, batch)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16"):
            losses = self._train_encoder(batch, latents, step)
            losses += self._train_isolated(batch, latents)
            losses += self.learner.improve(latents, step, self.generator)
        self.learner.follow(step)
        burst = self.config.learner.options.in_burst(self.updates)
        self.representation.follow(at_once=burst)
        if self.isolated is not None:
            self.isolated.follow(at_once=burst)
        return {name: value for loss in losses for name, value in loss.metrics.items()}

    def extras(self, batch: Batch) -> Extras:
        """Return the operator's inputs other than latents for a batch: the learner's current values, and windows."""
        return self._extras(batch, self._cache(self.representation, batch))

    def _extras(self, batch: Batch, latents: CachedLatents) -> Extras:
        """Return the extras. `latents` come from the learner's encoder, even if the metric has its own encoder."""
        needs = self.config.method.operator_needs
        if not needs & {"value", "action_value"}:
            return Extras(window=batch.window)
        z = latents.fixed_z("online")  # comes first: the metric loss reuses this pass with its gradient
        with torch.no_grad():
            value = self.learner.value(latents.fixed_features, z)
            action_value = self.learner.action_value(z, batch.action) if "action_value" in needs else None
        return Extras(value, action_value, batch.window)

    def _train_encoder(self, batch: Batch, latents: CachedLatents, step: Step) -> list[Loss]:
        """Train on the critic's loss and those of the representation, jointly or one after the other."""
        representation, given = self.representation, (batch.action, batch.reward, self.generator)
        critic, metrics = self.learner.critic_loss(batch, latents, step, self.generator)
        first = [Loss(self.config.method.critic_weight * critic, metrics)]
        if self.config.schedule == "joint":
            first += representation.model_losses(latents, *given).values()
            first += representation.metric_losses(latents, *given, self._extras(batch, latents)).values()
            self._step(first, "critic", "model")
            return first
        with_critic = self.config.method.metric_in == "critic"
        if with_critic:
            first += representation.metric_losses(latents, *given, self._extras(batch, latents)).values()
        self._step(first, "critic")
        latents.forget()
        second = [*representation.model_losses(latents, *given).values()]
        if not with_critic:
            second += representation.metric_losses(latents, *given, self._extras(batch, latents)).values()
        if second:
            self._step(second, "representation", "model")
            latents.forget()
        return first + second

    def _train_isolated(self, batch: Batch, shared: CachedLatents) -> list[Loss]:
        """Train the second representation on the metric. Its latent model then learns without changing its encoder."""
        isolated = self.isolated
        if isolated is None:
            return []
        given = (batch.action, batch.reward, self.generator)
        latents = self._cache(isolated, batch)
        metric = list(isolated.metric_losses(latents, *given, self._extras(batch, shared)).values())
        self._step(metric, "isolated")
        latents.forget()
        model = list(isolated.model_losses(latents, *given).values())
        if model:
            self._step(model, "isolated_model")
        return metric

    def _step(self, losses: list[Loss], *names: str) -> None:
        descend(losses, [self.optimizers[name] for name in names if name in self.optimizers])

    @staticmethod
    def _cache(representation: Representation, batch: Batch) -> CachedLatents:
        return_obs = None if batch.n_step is None else batch.n_step.next_obs
        window_obs = None if batch.window is None else batch.window.obs
        return representation.cache(batch.obs, batch.next_obs, return_obs=return_obs, window_obs=window_obs)

    def _augmented(self, batch: Batch) -> Batch:
        if self.config.learner.options.augmentation.name == "none":
            return batch
        changes: dict[str, Any] = {
            name: self.augment(getattr(batch, name), self.generator) for name in ("obs", "next_obs")
        }
        if batch.n_step is not None:
            shifted = self.augment(batch.n_step.next_obs, self.generator)
            changes["n_step"] = dataclasses.replace(batch.n_step, next_obs=shifted)
        if batch.window is not None:
            changes["window"] = dataclasses.replace(batch.window, obs=self.augment(batch.window.obs, self.generator))
        return dataclasses.replace(batch, **changes)

    def _checked(self, obs: NDArray[Any]) -> tuple[bool, Tensor]:
        """Return whether `obs` is one observation, and `obs` as a batch [B, ...]."""
        array = np.asarray(obs)
        expected = np.uint8 if len(self.observation_shape) == 3 else np.float32
        if array.dtype != expected:
            raise DtypeError(f"observations must be {np.dtype(expected)}, got {array.dtype}")
        single = array.shape == self.observation_shape
        if not single and array.shape[1:] != self.observation_shape:
            shape = list(self.observation_shape)
            raise ShapeError(f"observations must be {shape} or [B, {str(shape)[1:]}, got {list(array.shape)}")
        return single, torch.as_tensor(array[None] if single else array)

    def tensors(self) -> dict[str, Tensor]:
        """Return the whole state as a flat dict: weights, optimizer states, generator and update count."""
        state = {f"nets.{name}": value for name, value in self.nets.state_dict().items()}
        for key, optimizer in self.optimizers.items():
            for index, entry in optimizer.state_dict()["state"].items():
                state |= {f"optimizers.{key}.{index}.{name}": value for name, value in entry.items()}
        return {**state, "generator": self.generator.get_state(), "updates": torch.tensor(self.updates)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Load a state that `tensors` returned. Raise CheckpointError if it is not the state of such an agent."""
        if "generator" in tensors:
            tensors = {**tensors, "generator": fitting_state(tensors["generator"], self.generator)}
        expected = {f"nets.{name}": tensor for name, tensor in self.nets.state_dict().items()}
        expected |= {"generator": self.generator.get_state(), "updates": torch.tensor(self.updates)}
        _check_fit(expected, {name: value for name, value in tensors.items() if not name.startswith("optimizers.")})
        self.nets.load_state_dict({k[5:]: tensors[k] for k in expected if k.startswith("nets.")})
        for key, optimizer in self.optimizers.items():
            load_optimizer(optimizer, {k: v for k, v in tensors.items() if k.startswith(f"optimizers.{key}.")})
        self.generator.set_state(tensors["generator"].cpu())
        self.updates = int(tensors["updates"])

    def weights(self) -> dict[str, Tensor]:
        """Return the weights of all networks. They suffice to act and measure distances, not to continue training."""
        return dict(self.nets.state_dict())

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Load weights that `weights` returned. Raise CheckpointError if they do not fit."""
        _check_fit(self.weights(), weights)
        self.nets.load_state_dict(weights)


def _check_fit(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError unless the given tensors have the names, shapes and types of the expected ones."""
    for name in sorted(expected.keys() ^ given.keys()):
        raise CheckpointError(f"the tensor {name!r} is " + ("missing" if name in expected else "unknown to this agent"))
    for name, tensor in expected.items():
        wanted, got = ((list(one.shape), one.dtype) for one in (tensor, given[name]))
        if wanted != got:
            raise CheckpointError(f"the tensor {name!r} must be {wanted[0]} {wanted[1]}, got {got[0]} {got[1]}")
