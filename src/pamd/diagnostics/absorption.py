"""One number per distance: how much of what an encoder could learn from the residual the head takes for itself."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Absorption", "absorption", "absorption_ratio"]

TAIL = 0.1
"""The last tenth of a curve's points is its end: a single point is noise."""

_FLOOR = 1e-12
"""Residuals below this are the same: rounding, not fitting."""


class _Curve(Protocol):
    @property
    def distance(self) -> str: ...
    @property
    def encoder(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def residual(self) -> list[float]: ...
    @property
    def target_square(self) -> list[float]: ...


@dataclass(frozen=True)
class Absorption:
    """Means over seeds; errors are standard errors of them (0 for one seed)."""

    distance: str
    seeds: int
    initial: float
    """Residual before the first step, the same for both encoders."""
    frozen: float
    """At the end, encoder frozen."""
    trainable: float
    ratio: float
    """`absorption_ratio`, mean over seeds"""
    ratio_error: float
    relative_ratio: float
    """The same of residual / mean squared target, which does not rise as the target grows"""
    relative_ratio_error: float
    level: float
    """trainable / frozen, geometric mean: 1 if the encoder adds nothing"""


def absorption_ratio(initial: float, frozen: float, trainable: float) -> float:
    """ln(initial / frozen) / ln(initial / trainable), held in [0, 1].

    The share of the reduction of the residual, in orders of magnitude, that is reached with the encoder frozen: 0 where
    the head alone reduces nothing (a constant distance), 1 if training the encoder adds nothing to it.
    """
    initial, frozen, trainable = (max(x, _FLOOR) for x in (initial, frozen, trainable))
    by_head, by_both = math.log(initial / frozen), math.log(initial / trainable)
    if by_head <= 0:
        return 0.0
    return by_head / by_both if by_both > by_head else 1.0


def absorption(distance: str, curves: Sequence[_Curve]) -> Absorption | None:
    """Over the seeds for which `distance` has both curves; None if there is none."""
    found = {(c.encoder, c.seed): c for c in curves if c.distance == distance}
    seeds = sorted(seed for encoder, seed in found if encoder == "frozen" and ("trainable", seed) in found)
    if not seeds:
        return None
    frozen, trainable = ([_end(found[encoder, s].residual) for s in seeds] for encoder in ("frozen", "trainable"))
    initial = [found["frozen", s].residual[0] for s in seeds]
    ratios = [absorption_ratio(*three) for three in zip(initial, frozen, trainable, strict=True)]
    relative = []
    for seed in seeds:
        head, both = (_relative(found[encoder, seed]) for encoder in ("frozen", "trainable"))
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


def _relative(curve: _Curve) -> list[float]:
    return [r / max(t, _FLOOR) for r, t in zip(curve.residual, curve.target_square, strict=True)]


def _standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def _end(residual: Sequence[float]) -> float:
    return statistics.fmean(residual[-max(1, round(TAIL * len(residual))) :])
