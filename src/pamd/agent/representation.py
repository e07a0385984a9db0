"""The representation side: latent model, reward decoder and metric loss, as the `Method` says."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pamd.agent.encoded import EncodedBatch
from pamd.agent.method import Method
from pamd.distances import Distance
from pamd.nets import RewardDecoder, Transition
from pamd.objective import metric_loss
from pamd.operators import Operator
from pamd.types import Batch, Latents, Loss

__all__ = ["metric_latents", "metric_term", "model_term"]


def model_term(
    method: Method,
    batch: Batch,
    encoded: EncodedBatch,
    transition: Transition,
    reward_decoder: RewardDecoder | None,
    generator: torch.Generator,
) -> Loss:
    """Transition and reward losses, weighted; both train the encoder through `encoded.z`."""
    predicted = transition(encoded.z, batch.action)
    transition_loss = predicted.loss(encoded.z_next(method.next_latent_encoder))
    loss = method.transition_weight * transition_loss
    metrics = {"transition_loss": transition_loss.detach()}
    if reward_decoder is not None:
        reward_loss = F.mse_loss(reward_decoder(predicted.member(generator).sample(generator)), batch.reward)
        loss = loss + method.reward_weight * reward_loss
        metrics["reward_loss"] = reward_loss.detach()
    return Loss(loss, metrics)


def metric_term(
    method: Method,
    batch: Batch,
    encoded: EncodedBatch,
    distance: Distance[Any],
    target_distance: Distance[Any],
    operator: Operator[Any],
    transition: Transition | None,
    generator: torch.Generator,
) -> Loss:
    """eq:metric_loss on this batch, weighted; gradients reach `encoded.z` and `distance` alone."""
    latents = metric_latents(method, batch, encoded, operator, transition, generator)
    return metric_loss(
        latents, distance, operator, method.objective, target_distance=target_distance, generator=generator
    )


def metric_latents(
    method: Method,
    batch: Batch,
    encoded: EncodedBatch,
    operator: Operator[Any],
    transition: Transition | None,
    generator: torch.Generator,
) -> Latents:
    """What distance and operator read of this batch; only `z` carries a gradient."""
    needs = operator.needs
    fields: dict[str, Tensor] = {}
    if method.objective.right == "target":
        fields["z_target"] = encoded.fixed_z(method.target_encoder)
    if "z_next" in needs:
        fields["z_next"] = encoded.z_next(method.target_encoder)
    if needs & {"next_mean", "next_std", "next_sample"}:
        assert transition is not None
        fields |= _predicted(encoded.fixed_z(method.target_encoder), batch.action, transition, generator)
    return Latents(z=encoded.z, reward=batch.reward, **fields)


@torch.no_grad()
def _predicted(z: Tensor, action: Tensor, transition: Transition, generator: torch.Generator) -> dict[str, Tensor]:
    """Where the latent model leads from z [B, d]: one member's mean, standard deviation and sample."""
    chosen = transition(z, action).member(generator)
    fields = {"next_mean": chosen.mean[0], "next_sample": chosen.sample(generator)}
    if chosen.log_std is not None:
        fields["next_std"] = chosen.log_std[0].exp()
    return fields
