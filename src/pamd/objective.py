"""Pairing and the metric loss (eq:metric_loss), which regresses the distance of pairs on the operator's target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.config import check_choice
from pamd.distances import Distance
from pamd.errors import ConfigError, DtypeError, ShapeError
from pamd.operators import Operator
from pamd.operators.rap import Rap
from pamd.schema import explained
from pamd.types import Latents, Loss, Measurement, Pairs

__all__ = ["Objective", "make_pairs", "metric_loss"]


@explained
@dataclass(frozen=True)
class Objective:
    """The options of the metric loss."""

    pairing: Literal["permutation", "all"] = "permutation"
    """B pairs from one random permutation, or all B x B pairs."""
    right: Literal["online", "target"] = "online"
    """The encoder of the right-hand state. "target" carries no gradient."""
    regression: Literal["mse", "smooth-l1"] = "mse"
    """The squared error, or the Huber loss with threshold 1."""
    weight: float = 1.0
    """The weight of the whole metric term in the total loss."""
    penalty_sign: Literal[1, -1] = 1
    """1: add the distance's penalty (PAMD then favors anisotropy). -1: subtract it (PAMD then favors isotropy)."""

    def __post_init__(self) -> None:
        check_choice("the objective", "pairing", self.pairing, ("permutation", "all"))
        check_choice("the objective", "right", self.right, ("online", "target"))
        check_choice("the objective", "regression", self.regression, ("mse", "smooth-l1"))
        if self.penalty_sign not in (1, -1):
            raise ConfigError(f"the objective: penalty_sign must be 1 or -1, got {self.penalty_sign!r}")
        if not 0 <= self.weight < float("inf"):
            raise ConfigError(f"the objective: weight must be finite and at least 0, got {self.weight}")


def make_pairs(pairing: str, batch: int, generator: torch.Generator | None, device: torch.device) -> Pairs:
    """Return the pairs of a batch of B rows under `pairing`."""
    if pairing == "all":
        return Pairs.all(batch, device)
    return Pairs.permutation(batch, generator, device)


def metric_loss(
    latents: Latents,
    distance: Distance[Any] | nn.Module,
    operator: Operator[Any],
    objective: Objective | None = None,
    *,
    target_distance: Distance[Any] | nn.Module | None = None,
    generator: torch.Generator | None = None,
) -> Loss:
    """Return the weighted metric loss of a batch with the penalty. Gradients reach only `latents.z` and `distance`.

    `target_distance` measures next states (default: `distance`, without gradient). `generator` draws the pairs and the
    randomness of a randomized penalty; by default, torch's global generator does. Either distance may be wrapped
    (DistributedDataParallel, torch.compile). The measured side then runs through the wrapper, the target side does not.
    """
    objective = objective or Objective()
    target_side = _unwrapped(distance if target_distance is None else target_distance)
    _check_shapes(_unwrapped(distance), target_side, operator)
    pairs = make_pairs(objective.pairing, len(latents), generator, latents.z.device)
    z_right = latents.z
    if objective.right == "target":
        if latents.z_target is None:
            raise ShapeError('the objective has right="target", but Latents.z_target is missing')
        z_right = latents.z_target.detach()
    target = operator.target(latents, pairs, target_side)
    measured = _measure(distance, latents.z, z_right, pairs, generator)
    if measured.value.shape != target.shape:
        raise ShapeError(
            f"distance {type(_unwrapped(distance)).__name__} has values {list(measured.value.shape)}, but operator"
            f" {type(operator).__name__} has targets {list(target.shape)}; they must agree"
        )
    compared = measured.value, target
    if isinstance(operator, Rap):
        compared = operator.squares(measured.value, latents, pairs, target_side)
    residual = _regress(*compared, objective.regression, _pair_weight(latents, pairs))
    loss = objective.weight * (residual + objective.penalty_sign * measured.penalty)
    metrics = {
        "metric_loss": residual.detach(),
        "penalty": measured.penalty.detach(),
        "target_mean": target.detach().mean(),
        "target_max": target.detach().max(),
        **measured.stats,
    }
    return Loss(loss, metrics)


def _unwrapped(distance: nn.Module) -> Distance[Any]:
    """Return the distance inside its wrappers."""
    inner: Any = distance
    while not isinstance(inner, Distance):
        inner = getattr(inner, "module", getattr(inner, "_orig_mod", None))
        if inner is None:
            raise DtypeError(
                f"the metric loss requires a pamd.Distance, bare or wrapped, got {type(distance).__name__}"
            )
    return inner


def _check_shapes(distance: Distance[Any], target_side: Distance[Any], operator: Operator[Any]) -> None:
    """Raise ConfigError, before any computation, unless values and targets agree in shape."""
    operator.check(distance)
    if operator.coordinate_wise is None and distance.coordinate_wise != target_side.coordinate_wise:
        raise ConfigError(
            f"distance {type(distance).__name__} cannot be combined with target_distance"
            f" {type(target_side).__name__}: one has values [P], the other [P, d]"
        )


def _measure(
    distance: nn.Module, z: Tensor, z_right: Tensor, pairs: Pairs, generator: torch.Generator | None
) -> Measurement:
    if isinstance(distance, Distance):
        return distance.measure_between(z, z_right, pairs, generator)
    # A wrapper reduces gradients only for computations that ran through its own forward.
    measured: Measurement = distance(z[pairs.left], z_right[pairs.right], measured=True, generator=generator)
    return measured


def _pair_weight(latents: Latents, pairs: Pairs) -> Tensor | None:
    """Return the mean of the two sample weights of each pair: [P], or None if the batch has no weights."""
    if latents.weight is None:
        return None
    weight = latents.weight.detach()
    return (weight[pairs.left] + weight[pairs.right]) / 2


def _regress(value: Tensor, target: Tensor, regression: str, weight: Tensor | None) -> Tensor:
    """Return the mean error over pairs (and coordinates): []. weight [P] is relative to its mean; 0 if all are 0."""
    error = F.mse_loss if regression == "mse" else F.smooth_l1_loss
    if weight is None:
        return error(value, target)
    error_of_pair = error(value, target, reduction="none").view(len(weight), -1).mean(-1)  # coordinates averaged
    total = weight.sum()
    return (weight * error_of_pair).sum() / torch.where(total == 0, 1, total)
