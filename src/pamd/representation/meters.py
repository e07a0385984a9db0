"""Training meters that show whether the distance shapes the encoder, or its head absorbs the supervision.

They evaluate a representation on one batch and do not change it. Here, the head is the network of the distance, and
not the head of the encoder.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.distances import Distance, distance
from pamd.errors import ShapeError
from pamd.representation.representation import Representation
from pamd.terms.metric import Metric, MetricInputs, make_pairs, metric_loss
from pamd.types import Latents, OperatorInputs, Pairs

_PROBE_STEPS = 20
"""The number of Adam steps of the head alone on one batch."""


def read_meters(
    representation: Representation,
    obs: Tensor,
    action: Tensor,
    reward: Tensor,
    next_obs: Tensor,
    *,
    seed: int = 0,
    learning_rate: float = 1e-3,
    inputs: OperatorInputs | None = None,
) -> dict[str, float]:
    """Return the meters on one batch of transitions; without a metric term, only those of the latents.

    The arguments are those of `Representation.losses`. `learning_rate` is for the probe's Adam steps on the head.
    """
    was_training = representation.training
    representation.eval()  # running statistics of the encoder's layers must not change
    try:
        with torch.enable_grad():
            latents = representation.batch_latents(
                obs,
                action,
                reward,
                next_obs,
                inputs=inputs,
                generator=torch.Generator().manual_seed(seed),
                observe=False,
            )
            meters = {"effective_rank": effective_rank(latents.z.detach())}
            if representation.metric is not None:
                metric = representation.metric
                meters |= _metric_meters(representation, metric, metric.inputs(latents), learning_rate)
            return meters
    finally:
        representation.train(was_training)


def _metric_meters(
    representation: Representation, metric: Metric, inputs: MetricInputs, learning_rate: float
) -> dict[str, float]:
    latents = cast(Latents, inputs)  # both kinds have the same fields
    # As in `metric_loss`, the inputs are computed before the pairs are drawn, because both use the generator.
    metric.operator.check_inputs(latents)
    # The meters need a sample of pairs, so they use B pairs even if the loss uses all B x B.
    pairs = make_pairs("permutation", len(inputs), inputs.latents.generator, inputs.z.device)
    target = metric.operator.target(latents, pairs, metric.target_distance or metric.distance)
    meters = _gradients(representation, metric, inputs) | _reach(representation, metric, inputs, target)
    if any(p.requires_grad for p in metric.distance.parameters()):
        meters["probe_reduction"] = _probe(inputs.z.detach(), pairs, target, metric.distance, learning_rate)
    return meters


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


@contextlib.contextmanager
def hidden_activations(networks: Mapping[str, nn.Module]) -> Iterator[dict[str, list[Tensor]]]:
    """Record the outputs [B, H] of the ReLUs of each network that runs in the `with` block, by the network's name."""
    activations: dict[str, list[Tensor]] = {name: [] for name in networks}
    hooks = [
        layer.register_forward_hook(lambda _module, _inputs, output, layers=activations[name]: layers.append(output))
        for name, network in networks.items()
        for layer in network.modules()
        if isinstance(layer, nn.ReLU)
    ]
    try:
        yield activations
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def dormant_ratio(layers: Sequence[Tensor], threshold: float = 0.025) -> Tensor:
    """Return the share [] of dormant units in hidden layers, given their activations [B, H] each.

    A unit is dormant if the mean of its absolute activations is at most `threshold` times the mean over its layer.
    """
    means = [layer.abs().mean(0) for layer in layers]  # [H]
    dormant = torch.cat([mean <= threshold * mean.mean() for mean in means])
    return dormant.to(means[0].dtype).mean()


def _reach(representation: Representation, metric: Metric, inputs: MetricInputs, target: Tensor) -> dict[str, float]:
    """Return the bound of the operator's fixed point, and what the distance can reach on this encoder's latents.

    `reach_largest` is the distance's largest value, and `reach_missed` the share of the targets [P] above it. Both are
    omitted if the distance has no largest value.
    """
    largest = metric.distance.max_value(representation.encoder.max_norm())
    reward_range = float(inputs.reward.max() - inputs.reward.min())
    meters = {"reach_fixed_point": metric.operator.bound(reward_range)}
    if math.isinf(largest):
        return meters
    return meters | {"reach_largest": largest, "reach_missed": float((target > largest).float().mean())}


def _gradients(representation: Representation, metric: Metric, inputs: MetricInputs) -> dict[str, float]:
    """Return the norms of the metric loss's gradient with respect to the head and to the encoder."""
    loss, _ = metric_loss(
        inputs,
        metric.distance,
        metric.operator,
        metric.config,
        target_distance=metric.target_distance,
        generator=inputs.latents.generator,
    )
    if not loss.requires_grad:
        return {"gradient_encoder": 0.0}
    head = [p for p in metric.distance.parameters() if p.requires_grad]
    encoder = [p for p in representation.encoder.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss, [*head, *encoder], allow_unused=True)
    norms = {"gradient_encoder": _norm(gradients[len(head) :])}
    if head:
        norms["gradient_head"] = _norm(gradients[: len(head)])
    return norms


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
    for _ in range(_PROBE_STEPS):
        optimizer.zero_grad()
        residual().backward()
        optimizer.step()
    after = float(residual().detach())
    return 1 - after / before if before > 0 else 0.0


@torch.no_grad()
def denoising_factor(distance: Distance[Any], z: Tensor, z_other: Tensor) -> float:
    """Return (neg - pos) / (neg + pos) for the same S states under two backgrounds. z, z_other: [S, d].

    pos is the mean distance of a state to itself under the other background. neg is its mean distance to the other
    states under that background. 1: the background has no effect. 0: it has as much effect as the state. Negative: it
    has more effect than the state.
    """
    if z.shape != z_other.shape or z.ndim != 2 or len(z) < 2:
        shapes = f"{list(z.shape)} and {list(z_other.shape)}"
        raise ShapeError(f"denoising_factor requires [S, d] twice, S >= 2, got {shapes}")
    values = distance.all_pairs(z, z_other).double()  # [S, S]
    same_state = values.diagonal()
    pos = same_state.mean()
    neg = (values.sum() - same_state.sum()) / (values.numel() - len(same_state))
    total = float(neg + pos)
    return float(neg - pos) / total if total != 0 else 0.0


@torch.no_grad()
def denoising_factors(representation: Representation, obs: Tensor, obs_other: Tensor) -> dict[str, float]:
    """Return the denoising factors of l2 and of the method's own distance.

    obs, obs_other: [S, ...], the same S states with two samples of the background or noise.
    """
    z, z_other = representation.encode(obs), representation.encode(obs_other)
    l2 = distance("l2", latent_dim=z.shape[1])
    factors = {"denoising_l2": denoising_factor(l2, z, z_other)}
    if representation.metric is not None:
        factors["denoising"] = denoising_factor(representation.metric.distance, z, z_other)
    return factors
