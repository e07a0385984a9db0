"""The search for the weight of the metric loss of each comparator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pamd.errors import RunError
from pamd.report.run import load_runs
from studies.geometry.plan import ARMS, SEARCHED, own_weight, runs

__all__ = ["choose_weights", "last_return"]

_TIE = 0.02
"""Mean normalized returns that differ by less are a tie."""


def last_return(returns: Sequence[Sequence[float]]) -> float:
    """Return the mean of the last two evaluations of a run."""
    return float(np.mean([np.mean(episodes) for episodes in returns[-2:]]))


def choose_weights(sources: Sequence[Path]) -> dict[str, float]:
    """Return the weight of each comparator: that with the largest mean normalized return on the search's tasks.

    Raises RunError if a run of the search is missing. Of weights that tie, it is the one nearest to the method's own.
    """
    returned: dict[tuple[str, str, int], float] = {}
    for run in load_runs(sources):
        if run.finished:
            key = (str(run.config["method"]["name"]), str(run.config["env"]["task"]), run.seed)
            returned[key] = last_return(run.curve.returns)
    planned = [(one.label, one.config.env.task, one.config.seed) for one in runs("search")]
    missing = [key for key in planned if key not in returned]
    if missing:
        raise RunError(f"{len(missing)} of {len(planned)} runs of the search are missing, e.g. {missing[0]}")
    best = {task: max(returned[key] for key in planned if key[1] == task) for _, task, _ in planned}
    weights = {}
    for name in SEARCHED:
        scores: dict[float, list[float]] = {}
        for key in planned:
            comparator, _, weight = key[0].rpartition(", weight ")
            if comparator == name:
                scores.setdefault(float(weight), []).append(returned[key] / best[key[1]])
        means = {weight: float(np.mean(values)) for weight, values in scores.items()}
        tied = [weight for weight, mean in means.items() if mean > max(means.values()) - _TIE]
        own = own_weight(ARMS[name])
        weights[name] = min(tied, key=lambda weight: abs(math.log(weight / own)))
    return weights
