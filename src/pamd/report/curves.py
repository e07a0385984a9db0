"""Learning curves on a common grid, and their mean over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pamd.report.run import Curve, Run
from pamd.report.statistics import mean_and_error

__all__ = ["MeanCurve", "align", "mean_curve"]


@dataclass(frozen=True)
class MeanCurve:
    """The mean over seeds at G points. `error` is NaN for a single seed; `seconds` is NaN if a run has no timing."""

    decisions: NDArray[np.int64]
    frames: NDArray[np.float64]
    updates: NDArray[np.float64]
    seconds: NDArray[np.float64]
    mean: NDArray[np.float64]
    error: NDArray[np.float64]
    seeds: NDArray[np.int64]


def align(curve: Curve, grid: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mean return of the last evaluation at or before each grid point [G].

    The value is NaN before the first and after the last evaluation.
    """
    if not curve.decisions:
        return np.full(len(grid), np.nan)
    steps = np.asarray(curve.decisions)
    means = np.array([np.mean(returns) for returns in curve.returns])
    index = np.searchsorted(steps, grid, side="right") - 1
    return np.where((index >= 0) & (grid <= steps[-1]), means[np.maximum(index, 0)], np.nan)


def mean_curve(runs: Sequence[Run]) -> MeanCurve:
    """Return the mean, standard error and number of seeds on the union of the runs' evaluation steps."""
    curves = [run.curve for run in runs if run.curve.decisions]
    grid = np.array(sorted({step for curve in curves for step in curve.decisions}), dtype=np.int64)
    values = np.array([align(curve, grid) for curve in curves]).reshape(len(curves), len(grid))
    present = np.isfinite(values)
    points = [mean_and_error(values[present[:, g], g]) for g in range(len(grid))]

    def unit(name: str) -> NDArray[np.float64]:
        """Return a unit at the grid points, interpolated within each run and averaged over the runs at each point."""
        lines = [_interpolated(curve, getattr(curve, name), grid) for curve in curves]
        return np.array(
            [np.mean([line[g] for line, own in zip(lines, present, strict=True) if own[g]]) for g in range(len(grid))]
        )

    return MeanCurve(
        decisions=grid,
        frames=unit("frames"),
        updates=unit("updates"),
        seconds=unit("seconds"),
        mean=np.array([mean for mean, _ in points]),
        error=np.array([math.nan if error is None else error for _, error in points]),
        seeds=present.sum(axis=0),
    )


def _interpolated(curve: Curve, values: Sequence[float | None], grid: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.interp(grid, curve.decisions, [math.nan if value is None else value for value in values])
