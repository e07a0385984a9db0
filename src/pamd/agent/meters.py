"""Live meters: does the distance shape the encoder, or does its head absorb the supervision? Read now and then.

They read an agent and change nothing in it: no weight, no optimiser, no generator.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pamd.agent.representation import metric_latents
from pamd.distances import Distance
from pamd.nets import Encoder
from pamd.objective import make_pairs, metric_loss
from pamd.operators import Operator
from pamd.types import Batch, Latents, Pairs

if TYPE_CHECKING:
    from pamd.agent.agent import Agent

__all__ = ["effective_rank", "entropy_rank", "longest_latent", "read_meters", "warnings"]

PROBE_STEPS = 20
"""Adam steps that the head alone is given on one batch."""
COLLAPSED_RANK = 2.0
"""Below this the latents of a batch lie on a line."""
OUT_OF_REACH = 0.1
"""A share of pairs above which a user should know."""


def read_meters(agent: Agent, batch: Batch) -> dict[str, float]:
    """The meters on one batch; without a metric loss, the latents' alone."""
    generator = torch.Generator().manual_seed(agent.updates)
    encoded, distance, operator = agent.encode(batch, measured=True), agent.nets.distance, agent.operator
    meters = {"effective_rank": effective_rank(encoded.z.detach())}
    if distance is None or operator is None:
        return meters
    latents = metric_latents(agent.method, batch, encoded, operator, agent.nets.measured.transition, generator)
    pairs = make_pairs("permutation", len(latents), generator, latents.z.device)
    target = operator.target(latents, pairs, agent.nets.target_distance or distance)
    meters |= _gradients(agent, latents, distance, operator, generator)
    meters |= _reach(agent, latents, distance, operator, target)
    if any(p.requires_grad for p in distance.parameters()):
        meters["probe_reduction"] = _probe(agent, latents.z.detach(), pairs, target, distance)
    return meters


def warnings(meters: dict[str, float]) -> list[str]:
    """What a person should know of these meters."""
    found = []
    if meters["effective_rank"] < COLLAPSED_RANK:
        found.append(
            f"collapse: the latents of a batch have effective rank {meters['effective_rank']:.2f}; "
            "states are no longer told apart"
        )
    if meters.get("reach_missed", 0.0) > OUT_OF_REACH:
        found.append(
            f"reach: {100 * meters['reach_missed']:.0f} % of the targets lie beyond {meters['reach_largest']:.3g}, the "
            "largest value this distance can take on this encoder's latents, so the regression saturates; a smaller "
            "reward weight c_R (--set method.operator.options.c_R=1-gamma) brings the targets down"
        )
    return found


@torch.no_grad()
def effective_rank(z: Tensor) -> float:
    """exp of the entropy of the normalised singular values of centred z [B, d]: d if isotropic, 1 on a line.

    0 where all latents are the same.
    """
    values = torch.linalg.svdvals((z - z.mean(0)).double())
    total = values.sum()
    if total <= 1e-12 * max(1.0, float(z.abs().max())):
        return 0.0
    return float(entropy_rank(values))


def entropy_rank(values: Tensor) -> Tensor:
    """exp of the entropy of non-negative values taken as shares: d where all are equal, 1 where one is alone.

    [..., d] -> [...].
    """
    entropy: Tensor = torch.special.entr(values / values.sum(-1, keepdim=True))
    return entropy.sum(-1).exp()


@torch.no_grad()
def longest_latent(encoder: Encoder) -> float:
    """The length that no latent of this encoder exceeds: 1 on the sphere, by gain and bias under LayerNorm."""
    norm = encoder.head.norm
    if norm is None:
        return 1.0
    assert norm.weight is not None
    # A normalised vector has length sqrt(d) at most. Differences would not see the bias, but MICo's norms do.
    return float(norm.weight.abs().max() * len(norm.weight) ** 0.5 + norm.bias.norm())


def _reach(
    agent: Agent, latents: Latents, distance: Distance[Any], operator: Operator[Any], target: Tensor
) -> dict[str, float]:
    """How much of the target [P] the distance can express, and how far targets may go in the end."""
    config = operator.config
    largest = distance.largest(longest_latent(agent.nets.measured.encoder))
    spread = float(latents.reward.max() - latents.reward.min())
    meters = {"reach_fixed_point": config.reward_coefficient * spread / (1 - config.gamma * config.c_T)}
    if math.isinf(largest):
        return meters
    return meters | {"reach_largest": largest, "reach_missed": float((target > largest).float().mean())}


def _gradients(
    agent: Agent, latents: Latents, distance: Distance[Any], operator: Operator[Any], generator: torch.Generator
) -> dict[str, float]:
    """Norms of the metric loss's gradient with respect to the head and to the encoder."""
    slow = agent.nets.target_distance
    loss, _ = metric_loss(
        latents, distance, operator, agent.method.objective, target_distance=slow, generator=generator
    )
    head, encoder = list(distance.parameters()), list(agent.nets.measured.encoder.parameters())
    found = torch.autograd.grad(loss, [*head, *encoder], allow_unused=True)
    sizes = {"gradient_encoder": _norm(found[len(head) :])}
    return sizes | ({"gradient_head": _norm(found[: len(head)])} if head else {})


def _norm(gradients: Iterable[Tensor | None]) -> float:
    squares = [float(g.square().sum()) for g in gradients if g is not None]
    return math.sqrt(math.fsum(squares))


def _probe(agent: Agent, z: Tensor, pairs: Pairs, target: Tensor, distance: Distance[Any]) -> float:
    """The share of this batch's residual that the head alone removes in a few steps, latents and targets held fixed.

    Near 1: the head can absorb the supervision. Near 0 (or below): what is left must come from the encoder.
    """
    head = copy.deepcopy(distance)
    optimiser = torch.optim.Adam(head.parameters(), lr=agent.method.sac.learning_rate)

    def residual() -> Tensor:
        return F.mse_loss(head.between(z, z, pairs), target)

    before = float(residual().detach())
    for _ in range(PROBE_STEPS):
        optimiser.zero_grad()
        residual().backward()
        optimiser.step()
    after = float(residual().detach())
    return 1 - after / before if before > 0 else 0.0
