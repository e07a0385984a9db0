"""tab:dbc_det_comparison."""

from __future__ import annotations

from pamd.experiments.base import Experiment, add, arms
from pamd.experiments.budgets import BISIMULATION

__all__ = ["EXPERIMENT"]

EXPERIMENT = add(
    Experiment(
        name="table1",
        title="DBC, DBC-Det and DBC-Det+PAMD",
        shows="whether PAMD, and not the deterministic transition, improves DBC, on four tasks",
        arms=arms(BISIMULATION, "dbc", "dbc-det", "dbc-det+pamd"),
        published="table1",
    )
)
