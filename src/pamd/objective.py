"""Pairing and the metric loss (eq:metric_loss): measure the latents of pairs, regress them on the operator's target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from pamd.config import check_choice
from pamd.distances import Distance
from pamd.errors import ConfigError, ShapeError
from pamd.operators import Operator
from pamd.types import Latents, Loss, Pairs

__all__ = ["Objective", "make_pairs", "metric_loss"]


@dataclass(frozen=True)
class Objective:
    pairing: Literal["permutation", "all"] = "permutation"
    """B pairs by one random permutation, or all B x B."""
    right: Literal["online", "target"] = "online"
    """Which encoder sees the right-hand state; "target" carries no gradient."""
    regression: Literal["mse", "smooth-l1"] = "mse"
    weight: float = 1.0
    """Of the whole metric term in the joint loss."""
    penalty_sign: Literal[1, -1] = 1
    """1: the distance's penalty as it is (PAMD rewards anisotropy); -1: turned round (it is pulled to isotropy)."""

    def __post_init__(self) -> None:
        check_choice("the objective", "pairing", self.pairing, ("permutation", "all"))
        check_choice("the objective", "right", self.right, ("online", "target"))
        check_choice("the objective", "regression", self.regression, ("mse", "smooth-l1"))
        if self.penalty_sign not in (1, -1):
            raise ConfigError(f"the objective: penalty_sign must be 1 or -1, got {self.penalty_sign!r}")
        if not 0 <= self.weight < float("inf"):
            raise ConfigError(f"the objective: weight must be finite and at least 0, got {self.weight}")


def make_pairs(pairing: str, batch: int, generator: torch.Generator | None, device: torch.device) -> Pairs:
    """The pairs that `pairing` makes of a batch of B rows."""
    if pairing == "all":
        return Pairs.all(batch, device)
    return Pairs.permutation(batch, generator, device)


def metric_loss(
    latents: Latents,
    distance: Distance[Any],
    operator: Operator[Any],
    objective: Objective | None = None,
    *,
    target_distance: Distance[Any] | None = None,
    generator: torch.Generator | None = None,
) -> Loss:
    """The weighted metric loss of a batch, penalty included; gradients reach `latents.z` and `distance` alone.

    `target_distance` measures next states (default: `distance`, without gradient). `generator` draws the pairs
    and what a randomised penalty needs; without one torch's global generator does.
    """
    objective = objective or Objective()
    pairs = make_pairs(objective.pairing, len(latents), generator, latents.z.device)
    z_right = latents.z
    if objective.right == "target":
        if latents.z_target is None:
            raise ShapeError('the objective has right="target", but Latents.z_target is missing')
        z_right = latents.z_target.detach()
    target = operator.target(latents, pairs, target_distance or distance)
    measured = distance.measure_between(latents.z, z_right, pairs, generator)
    if measured.value.shape != target.shape:
        raise ShapeError(
            f"distance {type(distance).__name__} gives {list(measured.value.shape)} but operator"
            f" {type(operator).__name__} a target of {list(target.shape)}; a coordinate-wise comparator goes with"
            " a per-coordinate reading, a scalar one with a scalar reading"
        )
    residual = _regress(measured.value, target, objective.regression)
    loss = objective.weight * (residual + objective.penalty_sign * measured.penalty)
    metrics = {
        "metric_loss": residual.detach(),
        "penalty": measured.penalty.detach(),
        "target_mean": target.detach().mean(),
        "target_max": target.detach().max(),
        **measured.stats,
    }
    return Loss(loss, metrics)


def _regress(value: Tensor, target: Tensor, regression: str) -> Tensor:
    """Mean over pairs (and coordinates) -> []."""
    return F.mse_loss(value, target) if regression == "mse" else F.smooth_l1_loss(value, target)
