"""fig:cheetah_ablation."""

from __future__ import annotations

from pamd.experiments.base import Experiment, add, arms

__all__ = ["EXPERIMENT"]

_DISTANCES = ("", "+diagonal", "+adaptive-diagonal", "+pamd")

EXPERIMENT = add(
    Experiment(
        name="fig-diagonal",
        title="Diagonal Mahalanobis variants on cheetah_run",
        shows="whether a global or pair-dependent rescaling of the axes explains the benefit of the full matrix",
        arms=arms({"cheetah_run": 1_000_000}, *(f"{p}{d}" for p in ("dbc-det", "simsr") for d in _DISTANCES)),
        published="fig-diagonal",
    )
)
