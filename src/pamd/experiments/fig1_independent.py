"""fig:result1, bottom row."""

from __future__ import annotations

from pamd.experiments.base import Experiment, add, arms
from pamd.experiments.budgets import INDEPENDENT

__all__ = ["EXPERIMENT"]

EXPERIMENT = add(
    Experiment(
        name="fig1-independent",
        title="Learning curves of MICo, SimSR and the independently coupled operator with PAMD",
        shows="whether replacing the comparator alone helps under the independently coupled operator",
        arms=arms(INDEPENDENT, "mico", "simsr", "simsr+pamd"),
        published="fig1-independent",
    )
)
