"""Training meters that show whether the distance shapes the encoder, or its head absorbs the supervision.

They evaluate a representation on one batch and do not change it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pamd.distances import Distance
from pamd.objective import make_pairs, metric_loss
from pamd.operators import Operator
from pamd.representation.representation import Representation
from pamd.types import Extras, Latents, Pairs

__all__ = ["effective_rank", "entropy_rank", "read_meters", "warnings"]

PROBE_STEPS = 20
"""Number of Adam steps of the head alone on one batch."""
COLLAPSED_RANK = 2.0
"""The effective rank below which the latents of a batch nearly lie on a line."""
OUT_OF_REACH = 0.1
"""The share of pairs with unreachable targets above which the user is warned."""


def read_meters(
    representation: Representation,
    obs: Tensor,
    action: Tensor,
    reward: Tensor,
    next_obs: Tensor,
    *,
    seed: int = 0,
    learning_rate: float = 1e-3,
    extras: Extras | None = None,
) -> dict[str, float]:
    """Return the meters on one batch of transitions; without a metric loss, only those of the latents.

    The arguments are those of `Representation.losses`. `learning_rate` is for the probe's Adam steps on the head.
    """
    was_training = representation.training
    representation.eval()  # running statistics of the encoder's layers must not change
    try:
        with torch.enable_grad():
            return _read(representation, obs, action, reward, next_obs, seed, learning_rate, extras)
    finally:
        representation.train(was_training)


def _read(
    representation: Representation,
    obs: Tensor,
    action: Tensor,
    reward: Tensor,
    next_obs: Tensor,
    seed: int,
    learning_rate: float,
    extras: Extras | None,
) -> dict[str, float]:
    generator = torch.Generator().manual_seed(seed)
    window_obs = None if extras is None or extras.window is None else extras.window.obs
    cached = representation.cache(obs, next_obs, window_obs=window_obs)
    distance, operator = representation.distance, representation.operator
    meters = {"effective_rank": effective_rank(cached.z.detach())}
    if distance is None or operator is None:
        return meters
    latents = representation.metric_latents(cached, action, reward, generator, extras)
    pairs = make_pairs("permutation", len(latents), generator, latents.z.device)
    target = operator.target(latents, pairs, representation.target_distance or distance)
    meters |= _gradients(representation, latents, distance, operator, generator)
    meters |= _reach(representation, latents, distance, operator, target)
    if any(p.requires_grad for p in distance.parameters()):
        meters["probe_reduction"] = _probe(latents.z.detach(), pairs, target, distance, learning_rate)
    return meters


def warnings(meters: dict[str, float]) -> list[str]:
    """Return warnings about meters that the user should act on, as plain sentences."""
    found = []
    if meters["effective_rank"] < COLLAPSED_RANK:
        found.append(
            f"collapse: the latents of a batch have effective rank {meters['effective_rank']:.2f}; "
            "the encoder no longer distinguishes states"
        )
    if meters.get("reach_missed", 0.0) > OUT_OF_REACH:
        found.append(
            f"reach: {100 * meters['reach_missed']:.0f}% of the targets exceed {meters['reach_largest']:.3g}, the "
            "largest value of this distance on this encoder's latents, so the regression saturates; a smaller "
            "reward weight c_R (--set method.operator.c_R=1-gamma) lowers the targets; latent space ball "
            "(--set method.latent_space=ball) makes the latents large enough for them"
        )
    return found


@torch.no_grad()
def effective_rank(z: Tensor) -> float:
    """Return exp of the entropy of the normalized singular values of centered z [B, d].

    It is d if the latents are isotropic, 1 if they lie on a line, and 0 if they are all equal.
    """
    values = torch.linalg.svdvals((z - z.mean(0)).double())
    total = values.sum()
    if total <= 1e-12 * max(1.0, float(z.abs().max())):
        return 0.0
    return float(entropy_rank(values))


def entropy_rank(values: Tensor) -> Tensor:
    """Return exp of the entropy of non-negative values, normalized to sum to 1: [..., d] -> [...].

    It is d if all values are equal, and 1 if only one is nonzero.
    """
    entropy: Tensor = torch.special.entr(values / values.sum(-1, keepdim=True))
    return entropy.sum(-1).exp()


def _reach(
    representation: Representation, latents: Latents, distance: Distance[Any], operator: Operator[Any], target: Tensor
) -> dict[str, float]:
    """Return the distance's largest value, the share of targets [P] above it, and the bound of the fixed point."""
    largest = distance.max_value(representation.encoder.longest())
    spread = float(latents.reward.max() - latents.reward.min())
    meters = {"reach_fixed_point": operator.bound(spread)}
    if math.isinf(largest):
        return meters
    return meters | {"reach_largest": largest, "reach_missed": float((target > largest).float().mean())}


def _gradients(
    representation: Representation,
    latents: Latents,
    distance: Distance[Any],
    operator: Operator[Any],
    generator: torch.Generator,
) -> dict[str, float]:
    """Return the norms of the metric loss's gradient with respect to the head and to the encoder."""
    slow, objective = representation.target_distance, representation.method.objective
    loss, _ = metric_loss(latents, distance, operator, objective, target_distance=slow, generator=generator)
    head, encoder = ([p for p in part.parameters() if p.requires_grad] for part in (distance, representation.encoder))
    if not loss.requires_grad:
        return {"gradient_encoder": 0.0}
    found = torch.autograd.grad(loss, [*head, *encoder], allow_unused=True)
    sizes = {"gradient_encoder": _norm(found[len(head) :])}
    return sizes | ({"gradient_head": _norm(found[: len(head)])} if head else {})


def _norm(gradients: Iterable[Tensor | None]) -> float:
    squares = [float(g.square().sum()) for g in gradients if g is not None]
    return math.sqrt(math.fsum(squares))


def _probe(z: Tensor, pairs: Pairs, target: Tensor, distance: Distance[Any], learning_rate: float) -> float:
    """Return the share of this batch's residual that the head alone removes in a few steps.

    Latents and targets are fixed. Near 1: the head can absorb the supervision. Near 0 (or below): the encoder must
    remove the rest.
    """
    head = copy.deepcopy(distance)
    optimizer = torch.optim.Adam(head.parameters(), lr=learning_rate)

    def residual() -> Tensor:
        return F.mse_loss(head.between(z, z, pairs), target)

    before = float(residual().detach())
    for _ in range(PROBE_STEPS):
        optimizer.zero_grad()
        residual().backward()
        optimizer.step()
    after = float(residual().detach())
    return 1 - after / before if before > 0 else 0.0
