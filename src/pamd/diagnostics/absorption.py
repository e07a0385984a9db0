"""Curves of residual fitting, and the absorption ratio: how much of the residual the head removes by itself."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

_TAIL = 0.1
"""The end of a curve is the mean of its last tenth, because single points are noisy."""

_FLOOR = 1e-12
"""Residuals below this are considered equal, because they are rounding errors."""


@dataclass(frozen=True)
class Curve:
    """One fit with N points. The first point is before the first step."""

    distance: str
    encoder: Literal["frozen", "trainable"]
    seed: int
    steps: list[int]
    """[N]: gradient updates"""
    residual: list[float]
    """[N]: mean over the evaluation pairs of (d - target)^2"""
    target_square: list[float]
    """[N]: mean of target^2, which gives the scale of the residual"""
    batch_loss: list[float] = field(default_factory=list)
    """[N]: the loss of a training batch with the same weights, which the released code logs"""


@dataclass(frozen=True)
class Absorption:
    """Means over seeds with standard errors (0 for one seed)."""

    distance: str
    seeds: int
    initial: float
    """The residual before the first step, which is the same for both encoders."""
    frozen: float
    """The final residual with a frozen encoder."""
    trainable: float
    ratio: float
    """The mean `absorption_ratio` over seeds."""
    ratio_error: float
    relative_ratio: float
    """The same for residual / mean squared target, which is independent of the scale of the target."""
    relative_ratio_error: float
    level: float
    """The geometric mean of trainable / frozen; 1 if training the encoder does not help."""


def absorption_ratio(initial: float, frozen: float, trainable: float) -> float:
    """Return ln(initial / frozen) / ln(initial / trainable), clipped to [0, 1].

    This is the share of the residual reduction, in orders of magnitude, that is reached with a frozen encoder. It is 0
    if the head alone reduces nothing (a constant distance), and 1 if training the encoder does not help.
    """
    initial, frozen, trainable = (max(x, _FLOOR) for x in (initial, frozen, trainable))
    by_head, by_both = math.log(initial / frozen), math.log(initial / trainable)
    if by_head <= 0:
        return 0.0
    return by_head / by_both if by_both > by_head else 1.0


def absorption(distance: str, curves: Sequence[Curve]) -> Absorption | None:
    """Return the absorption of `distance` over the seeds that have both curves; None if there are none."""
    by_seed = {(c.encoder, c.seed): c for c in curves if c.distance == distance}
    seeds = sorted(seed for encoder, seed in by_seed if encoder == "frozen" and ("trainable", seed) in by_seed)
    if not seeds:
        return None
    frozen, trainable = ([_end(by_seed[encoder, s].residual) for s in seeds] for encoder in ("frozen", "trainable"))
    initial = [by_seed["frozen", s].residual[0] for s in seeds]
    ratios = [absorption_ratio(*three) for three in zip(initial, frozen, trainable, strict=True)]
    relative = []
    for seed in seeds:
        pair = (by_seed[encoder, seed] for encoder in ("frozen", "trainable"))
        head, both = ([r / max(t, _FLOOR) for r, t in zip(c.residual, c.target_square, strict=True)] for c in pair)
        relative.append(absorption_ratio(head[0], _end(head), _end(both)))
    levels = [max(t, _FLOOR) / max(f, _FLOOR) for f, t in zip(frozen, trainable, strict=True)]
    return Absorption(
        distance=distance,
        seeds=len(seeds),
        initial=statistics.fmean(initial),
        frozen=statistics.fmean(frozen),
        trainable=statistics.fmean(trainable),
        ratio=statistics.fmean(ratios),
        ratio_error=_standard_error(ratios),
        relative_ratio=statistics.fmean(relative),
        relative_ratio_error=_standard_error(relative),
        level=statistics.geometric_mean(levels),
    )


def _standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def _end(residual: Sequence[float]) -> float:
    return statistics.fmean(residual[-max(1, round(_TAIL * len(residual))) :])
