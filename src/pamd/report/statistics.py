"""Statistics for small numbers of seeds, in NumPy. Random numbers are drawn from the given generator.

Scores of several tasks are a sequence of arrays, one array [seeds] per task: [tasks][seeds]. Leading axes are kept.
Aggregates and their intervals are defined as in Agarwal et al. (2021), "Deep reinforcement learning at the edge of the
statistical precipice": runs are resampled within each task, and tasks are never resampled.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from pamd.table import NONE, Quantity

Values = NDArray[np.float64]
Scores = Sequence[Values]
"""[tasks][..., seeds]"""
_RESAMPLES = 2000


@dataclass(frozen=True)
class Mean(Quantity):
    """The mean over n seeds and its standard error. One seed has no error; no seed has no mean."""

    mean: float | None
    error: float | None
    n: int

    @classmethod
    def over(cls, values: Sequence[float] | Values) -> Mean:
        """Return the mean of `values`, one per seed."""
        return cls(*mean_and_error(values), len(values)) if len(values) else cls(None, None, 0)

    def __str__(self) -> str:
        digits = _digits(self.mean, self.error)
        error = "" if self.error is None else f" ± {_rounded(self.error, digits)}"
        mean = NONE if self.mean is None else _rounded(self.mean, digits)
        return f"{mean}{error} (n={self.n})"

    def parts(self) -> dict[str, float | None]:
        return {"mean": self.mean, "standard error": self.error, "n": self.n}


@dataclass(frozen=True)
class Estimate(Quantity):
    """A value and its interval. There is no interval if a task has only one seed."""

    value: float
    low: float | None
    high: float | None
    digits: int | None = None
    """The number of decimals in text; None chooses it from the size of the value."""

    def __str__(self) -> str:
        digits = _digits(self.value, self.low, self.high) if self.digits is None else self.digits
        if self.low is None or self.high is None:
            return _rounded(self.value, digits)
        return f"{_rounded(self.value, digits)} [{_rounded(self.low, digits)}, {_rounded(self.high, digits)}]"

    def parts(self) -> dict[str, float | None]:
        return {"": self.value, "low": self.low, "high": self.high}


def mean_and_error(values: Sequence[float] | Values) -> tuple[float, float | None]:
    """Return the mean and standard error over seeds, as in the paper's figures.

    The error of one value is None, not zero.
    """
    array = np.asarray(values, dtype=np.float64)
    error = float(array.std(ddof=1)) / math.sqrt(array.size) if array.size > 1 else None
    return float(array.mean()), error


def iqm(scores: Scores) -> Values:
    """Return the interquartile mean of all runs pooled over tasks, which drops floor(n/4) runs at each end."""
    pooled = np.sort(np.concatenate(scores, axis=-1), axis=-1)
    runs = pooled.shape[-1]
    return np.asarray(pooled[..., runs // 4 : runs - runs // 4].mean(axis=-1))


def optimality_gap(scores: Scores, target: float = 1.0) -> Values:
    """Return the mean shortfall of runs from `target`. Scores above the target have a shortfall of 0."""
    return np.asarray(target - np.minimum(np.concatenate(scores, axis=-1), target).mean(axis=-1))


def performance_profile(scores: Scores, thresholds: Values) -> Values:
    """Return the share of runs above each threshold [T], averaged over tasks: [..., T]."""
    shares = [(task[..., :, None] > thresholds).mean(axis=-2) for task in scores]
    return np.asarray(np.mean(shares, axis=0))


def probability_of_improvement(x: Scores, y: Scores) -> Values:
    """Return the probability that a run of x beats a run of y, averaged over tasks (Mann-Whitney U / nm, ties half)."""
    differences = [a[..., :, None] - b[..., None, :] for a, b in zip(x, y, strict=True)]
    # (sign + 1) / 2 is 1 for a win, 1/2 for a tie, 0 for a loss.
    return np.asarray(np.mean([(np.sign(d).mean(axis=(-2, -1)) + 1) / 2 for d in differences], axis=0))


def bootstrap(
    statistic: Callable[..., Values],
    *samples: Scores,
    rng: np.random.Generator,
    level: float = 0.95,
    times: int = _RESAMPLES,
) -> tuple[Values, Values]:
    """Return the percentile interval (low, high) of `statistic(*samples)` by a stratified bootstrap.

    Runs are resampled with replacement within each task, independently for each of `samples`. The statistic is called
    once with all resamples in a leading axis.
    """
    drawn = [[task[rng.integers(0, len(task), (times, len(task)))] for task in sample] for sample in samples]
    return _interval(statistic(*drawn), level)


def estimate(
    statistic: Callable[..., Values], *samples: Scores, rng: np.random.Generator, digits: int | None = None
) -> Estimate:
    """Return a statistic with its 95% bootstrap interval; no interval if a task has a single run."""
    value = float(statistic(*samples))
    if any(len(task) < 2 for sample in samples for task in sample):
        return Estimate(value, None, None, digits)
    low, high = bootstrap(statistic, *samples, rng=rng)
    return Estimate(value, float(low), float(high), digits)


def profile_interval(
    scores: Scores, thresholds: Values, *, rng: np.random.Generator, times: int = 500
) -> tuple[Values, Values]:
    """Return the bootstrap interval (low, high) of the performance profile at each threshold [T], as `bootstrap` does.

    A resample counts how often it has each run, so its profile is a product of matrices.
    """
    counts = _draw_counts(scores, rng, times)
    shares = [count @ (task[:, None] > thresholds) / len(task) for count, task in zip(counts, scores, strict=True)]
    return _interval(np.mean(shares, axis=0))


def estimate_improvement(x: Scores, y: Scores, *, rng: np.random.Generator) -> Estimate:
    """Return the probability of improvement with the interval of `estimate`, by counts as in `profile_interval`."""
    value = float(probability_of_improvement(x, y))
    if any(len(task) < 2 for task in (*x, *y)):
        return Estimate(value, None, None, 2)
    counts = zip(_draw_counts(x, rng, _RESAMPLES), _draw_counts(y, rng, _RESAMPLES), strict=True)
    drawn = []
    for a, b, (of_a, of_b) in zip(x, y, counts, strict=True):
        wins = (np.sign(a[:, None] - b) + 1) / 2
        drawn.append(((of_a @ wins) * of_b).sum(axis=-1) / wins.size)
    low, high = _interval(np.mean(drawn, axis=0))
    return Estimate(value, float(low), float(high), 2)


def _draw_counts(sample: Scores, rng: np.random.Generator, times: int) -> list[Values]:
    """Return how often each resample has each run of a task: [tasks][times, seeds]."""
    counts = []
    for task in sample:
        runs = len(task)
        drawn = rng.integers(0, runs, (times, runs)) + runs * np.arange(times)[:, None]
        counts.append(np.bincount(drawn.ravel(), minlength=times * runs).reshape(times, runs).astype(np.float64))
    return counts


def _interval(resampled: Values, level: float = 0.95) -> tuple[Values, Values]:
    """Return the percentile interval (low, high) over the first axis."""
    tail = (1 - level) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail], axis=0)
    return low, high


def success_rate(successes: Sequence[bool], level: float = 0.95) -> Estimate:
    """Return the share of successes with Wilson's (1927) score interval, for independent episodes."""
    n, share, z = len(successes), float(np.mean(successes)), NormalDist().inv_cdf(0.5 + level / 2)
    center = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return Estimate(share, max(0.0, center - reach), min(1.0, center + reach), 2)


def paired_difference(x: Values, y: Values, level: float = 0.95) -> Estimate:
    """Return the mean of x - y over common seeds [seeds], with Student's t interval.

    With five seeds, a bootstrap interval would be one third too narrow.
    """
    mean, error = mean_and_error(np.asarray(x, dtype=np.float64) - np.asarray(y, dtype=np.float64))
    if error is None:
        return Estimate(mean, None, None)
    reach = student_quantile(0.5 + level / 2, len(x) - 1) * error
    return Estimate(mean, mean - reach, mean + reach)


def seeds_needed(differences: Values, power: float = 0.8, significance: float = 0.05) -> int | None:
    """Return the number of paired seeds that a two-sided test needs to detect the observed `differences` [seeds].

    n = ((z_{1-a/2} + z_power) / e)^2 + z_{1-a/2}^2 / 2 with e = mean / standard deviation: the normal approximation
    with Guenther's (1981) correction for the t test. With few seeds, the spread and therefore the result are uncertain.
    Returns None if there are fewer than two paired seeds or the mean difference is zero.
    """
    if len(differences) < 2 or not (mean := float(np.mean(differences))):
        return None
    effect = abs(mean) / float(np.std(differences, ddof=1)) if np.std(differences) else math.inf
    z, z_power = (NormalDist().inv_cdf(p) for p in (1 - significance / 2, power))
    return max(2, math.ceil(((z + z_power) / effect) ** 2 + z**2 / 2))


@dataclass(frozen=True)
class Effect:
    """The mean over tasks of paired differences, with its uncertainty."""

    mean: float
    error: float
    """The standard error of the mean."""
    degrees: float
    """The Welch-Satterthwaite degrees of freedom of the error."""

    def interval(self, level: float = 0.95) -> Estimate:
        """Return the effect with Student's t interval."""
        half = self.half_width(level)
        return Estimate(self.mean, self.mean - half, self.mean + half)

    def half_width(self, level: float = 0.95) -> float:
        """Return half the width of Student's t interval."""
        return student_quantile(0.5 + level / 2, self.degrees) * self.error

    @property
    def p_value(self) -> float:
        """The p value of a two-sided test of no effect."""
        if not self.error:
            return 1.0 if self.mean == 0 else 0.0
        return 2 * student_tail(abs(self.mean) / self.error, self.degrees)

    def detectable(self, power: float = 0.8, significance: float = 0.05) -> float:
        """Return the smallest effect that these seeds can detect with probability `power`, given their spread."""
        quantiles = (1 - significance / 2, power)
        return sum(student_quantile(p, self.degrees) for p in quantiles) * self.error


def pooled_effect(differences: Scores) -> Effect | None:
    """Return the mean over tasks of the mean paired difference [tasks][seeds]; None if a task has a single seed."""
    if not differences or any(len(task) < 2 for task in differences):
        return None
    variances = [float(task.var(ddof=1)) / len(task) for task in differences]
    total, mean = sum(variances), float(np.mean([task.mean() for task in differences]))
    spread = sum(v**2 / (len(task) - 1) for v, task in zip(variances, differences, strict=True))
    degrees = total**2 / spread if spread else float(sum(len(task) - 1 for task in differences))
    return Effect(mean, math.sqrt(total) / len(differences), degrees)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm-corrected p values (Holm 1979): the smallest level at which each test rejects."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


@functools.cache
def student_quantile(p: float, degrees: float) -> float:
    """Return the p-quantile of Student's t distribution, for p > 1/2, by numerical integration."""
    angles, area = _student_area(degrees)
    return math.sqrt(degrees) * math.tan(float(np.interp(p - 0.5, area, angles)))


def student_tail(t: float, degrees: float) -> float:
    """Return the probability that a variable with Student's t distribution exceeds t, for t >= 0."""
    angles, area = _student_area(degrees)
    return max(0.0, 0.5 - float(np.interp(math.atan(t / math.sqrt(degrees)), angles, area)))


def _student_area(degrees: float) -> tuple[Values, Values]:
    """Return angles [N] and the area under the density between 0 and each angle, where t = sqrt(degrees) tan(angle)."""
    constant = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)
    # The integral over the angle has a finite range.
    angles = np.linspace(0.0, math.pi / 2, 20_001)
    density = constant * math.sqrt(degrees) * np.cos(angles) ** (degrees - 1)
    area = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2) * (angles[1] - angles[0])])
    return angles, area


def _digits(*values: float | None) -> int:
    """Return the number of decimals for a return. A small return must not be shown as 0.0."""
    return 1 if max((abs(value) for value in values if value is not None), default=0.0) >= 1 else 3


def _rounded(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:.{digits}f}"  # + 0.0 removes the minus sign of a negative zero.
