"""fig:result1, top row. It shares its runs with table1."""

from __future__ import annotations

from pamd.experiments.base import Experiment, add, arms
from pamd.experiments.budgets import BISIMULATION

__all__ = ["EXPERIMENT"]

EXPERIMENT = add(
    Experiment(
        name="fig1-dbc",
        title="Learning curves of DBC-Det and DBC-Det+PAMD",
        shows="whether replacing the comparator alone helps under the bisimulation operator",
        arms=arms(BISIMULATION, "dbc-det", "dbc-det+pamd"),
        published="fig1-dbc",
    )
)
