"""SAC from pixels with a representation side: one class for every method."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pamd.agent.actor import actor_loss
from pamd.agent.augment import random_shift
from pamd.agent.critic import bootstrap, critic_loss
from pamd.agent.encoded import EncodedBatch
from pamd.agent.method import Method, Scale
from pamd.agent.networks import Isolated, Networks, follow, load_optimiser, make_optimisers
from pamd.agent.representation import metric_term, model_term
from pamd.agent.temperature import temperature_loss
from pamd.operators import Operator, operator
from pamd.types import Batch, Loss

__all__ = ["Agent", "Precision"]

Precision = Literal["float32", "bfloat16"]
"""Of the forward passes of an update; weights, optimisers and acting are float32 always."""


class Agent:
    """Acts and learns. All its randomness comes from one generator, which is part of its state."""

    def __init__(
        self,
        method: Method,
        scale: Scale,
        *,
        action_dim: int,
        seed: int,
        channels: int = 3,
        device: str | torch.device = "cpu",
        precision: Precision = "float32",
    ) -> None:
        self.method, self.scale, self.action_dim, self.precision = method, scale, action_dim, precision
        self.device = torch.device(device)
        self.updates = 0
        # Weights are drawn from the seed alone, whatever the process has drawn before.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.nets = Networks(method, scale, channels, action_dim).to(self.device)
        self.generator = torch.Generator().manual_seed(seed)
        self.optimisers = make_optimisers(method, self.nets)
        self.operator: Operator[Any] | None = None
        if method.operator is not None:
            self.operator = operator(method.operator.name, **{"gamma": method.sac.gamma, **method.operator.options})

    @torch.no_grad()
    def act(self, obs: NDArray[np.uint8], *, explore: bool) -> NDArray[np.float32]:
        """An action [A] for an observation [k*C, H, W]: sampled to explore, else the policy's mode."""
        features = self.nets.encoder.convolutions(torch.as_tensor(obs, device=self.device)[None])
        actor = self.nets.actor
        action = actor.sample(features, self.generator)[0] if explore else actor.mean(features)
        chosen: NDArray[np.float32] = action[0].cpu().numpy()
        return chosen

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """One update: critic, then transition and metric, then actor and temperature, then targets."""
        self.updates += 1
        batch = self._augmented(batch)
        encoded = self.encode(batch)
        sac = self.method.sac
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            losses = self._critic_and_representation(batch, encoded) + self._isolated(batch)
            if self.updates % sac.actor_every == 0:
                losses += self._actor_and_temperature(encoded)
        if self.updates % sac.targets_every == 0:
            self._follow_targets()
        return {name: value for loss in losses for name, value in loss.metrics.items()}

    def encode(self, batch: Batch, measured: bool = False) -> EncodedBatch:
        """What the networks, as they stand, see of a batch; computed when asked for.

        `measured`: as the distance sees it, which is the same unless the metric is isolated.
        """
        nets = self.nets.measured if measured else self.nets
        slow = {"ema": nets.target_encoder}
        if nets.periodic_encoder is not None:
            slow["periodic"] = nets.periodic_encoder
        return EncodedBatch(batch, nets.encoder, slow)

    def synchronise(self, decisions: int) -> None:
        """Copy the encoder to its periodic copy when its period is over; to be called at every decision."""
        if decisions % self.method.target_period:
            return
        for nets in self._sides():
            if nets.periodic_encoder is not None:
                follow(nets.periodic_encoder, nets.encoder, 1.0)

    def tensors(self) -> dict[str, Tensor]:
        """The whole state, flat: weights, optimiser states, generator."""
        state = {f"nets.{name}": value for name, value in self.nets.state_dict().items()}
        for key, optimiser in self.optimisers.items():
            for index, entry in optimiser.state_dict()["state"].items():
                state |= {f"optimisers.{key}.{index}.{name}": value for name, value in entry.items()}
        return {**state, "generator": self.generator.get_state(), "updates": torch.tensor(self.updates)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over a state that `tensors` gave."""
        self.nets.load_state_dict({k[5:]: v for k, v in tensors.items() if k.startswith("nets.")})
        for key, optimiser in self.optimisers.items():
            load_optimiser(optimiser, {k: v for k, v in tensors.items() if k.startswith(f"optimisers.{key}.")})
        self.generator.set_state(tensors["generator"].cpu())
        self.updates = int(tensors["updates"])

    def _augmented(self, batch: Batch) -> Batch:
        if not self.scale.random_shift:
            return batch
        shifted = [random_shift(x, self.scale.random_shift, self.generator) for x in (batch.obs, batch.next_obs)]
        return Batch(shifted[0], batch.action, batch.reward, shifted[1], batch.not_done)

    def _critic_and_representation(self, batch: Batch, encoded: EncodedBatch) -> list[Loss]:
        method = self.method
        critic = self._critic_term(batch, encoded)
        model, metric = self._model_term, self._shared_metric_term
        if method.schedule == "joint":
            losses = [critic, *model(batch, encoded), *metric(batch, encoded)]
            self._step(losses, "critic", "model")
            return losses
        first = [critic, *(metric(batch, encoded) if method.metric_in == "critic" else [])]
        self._step(first, "critic")
        encoded.forget()
        second = [*model(batch, encoded), *(metric(batch, encoded) if method.metric_in != "critic" else [])]
        if second:
            self._step(second, "representation", "model")
            encoded.forget()
        return first + second

    def _critic_term(self, batch: Batch, encoded: EncodedBatch) -> Loss:
        nets = self.nets
        target = bootstrap(
            batch,
            nets.actor,
            nets.target_critic,
            encoded.next_features,
            encoded.z_next("ema"),
            nets.log_temperature.exp(),
            self.method.sac.gamma,
            self.generator,
        )
        loss, metrics = critic_loss(nets.critic, encoded.z, batch.action, target)
        return Loss(self.method.critic_weight * loss, metrics)

    def _model_term(self, batch: Batch, encoded: EncodedBatch) -> list[Loss]:
        transition, decoder = self.nets.transition, self.nets.reward_decoder
        if transition is None:
            return []
        return [model_term(self.method, batch, encoded, transition, decoder, self.generator)]

    def _metric_term(self, batch: Batch, encoded: EncodedBatch) -> list[Loss]:
        nets, method = self.nets, self.method
        if nets.distance is None or self.operator is None:
            return []
        slow, model = nets.target_distance or nets.distance, nets.measured.transition
        return [metric_term(method, batch, encoded, nets.distance, slow, self.operator, model, self.generator)]

    def _shared_metric_term(self, batch: Batch, encoded: EncodedBatch) -> list[Loss]:
        """The metric loss on the agent's own encoder; none where it is isolated, with a step of its own."""
        return [] if self.nets.isolated is not None else self._metric_term(batch, encoded)

    def _isolated(self, batch: Batch) -> list[Loss]:
        """The metric step of the second encoder; then its latent model learns, without a say in the encoder."""
        isolated = self.nets.isolated
        if isolated is None:
            return []
        encoded = self.encode(batch, measured=True)
        metric = self._metric_term(batch, encoded)
        self._step(metric, "isolated")
        encoded.forget()
        if isolated.transition is not None:
            model = model_term(self.method, batch, encoded, isolated.transition, None, self.generator)
            self._step([model], "isolated_model")
        return metric

    def _actor_and_temperature(self, encoded: EncodedBatch) -> list[Loss]:
        nets = self.nets
        features = encoded.fixed_features
        with torch.no_grad():
            z = nets.encoder.head(features)
        actor, log_prob = actor_loss(nets.actor, nets.critic, features, z, nets.log_temperature.exp(), self.generator)
        self._step([actor], "actor")
        temperature = temperature_loss(nets.log_temperature, log_prob, -float(self.action_dim))
        self._step([temperature], "temperature")
        return [actor, temperature]

    def _step(self, losses: list[Loss], *names: str) -> None:
        """Descend on the sum of the losses with the named optimisers; other networks get no gradient."""
        optimisers = [self.optimisers[name] for name in names if name in self.optimisers]
        parameters = {id(p): p for o in optimisers for group in o.param_groups for p in group["params"]}
        for optimiser in optimisers:
            optimiser.zero_grad()
        # Autocast is for forward passes; a backward pass takes the types of its forward pass.
        with torch.autocast(self.device.type, enabled=False):
            total = functools.reduce(torch.add, [loss.value for loss in losses])
            total.backward(inputs=list(parameters.values()))
            for optimiser in optimisers:
                optimiser.step()

    def _sides(self) -> list[Networks | Isolated]:
        """The networks that have an encoder with slow copies."""
        return [self.nets] if self.nets.isolated is None else [self.nets, self.nets.isolated]

    def _follow_targets(self) -> None:
        sac, nets = self.method.sac, self.nets
        follow(nets.target_critic, nets.critic, sac.critic_tau)
        for part in self._sides():
            follow(part.target_encoder, part.encoder, sac.encoder_tau)
        if nets.target_distance is not None and nets.distance is not None:
            follow(nets.target_distance, nets.distance, sac.encoder_tau)
