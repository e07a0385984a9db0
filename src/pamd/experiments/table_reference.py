"""tab:recent_visual_rl_comparison. Methods of other papers stand there as published numbers only."""

from __future__ import annotations

from pamd.experiments.base import Experiment, add, arms
from pamd.experiments.budgets import BISIMULATION, INDEPENDENT, WALKER_RUN

__all__ = ["EXPERIMENT"]

_SHARED = ("cheetah_run", "hopper_hop")
_TASKS = ("acrobot_swingup", *_SHARED)

EXPERIMENT = add(
    Experiment(
        name="table-reference",
        title="Beside recent visual reinforcement learning",
        shows="where the methods stand on four tasks; read at the budget that each published number has",
        arms=(
            *arms({task: INDEPENDENT[task] for task in _TASKS}, "simsr+pamd", "mico", "simsr"),
            *arms({"walker_run": WALKER_RUN}, "simsr+pamd", "simsr"),
            # The column called DBC holds numbers of DBC-Det for cheetah_run: both are here.
            *arms({task: BISIMULATION[task] for task in _SHARED}, "dbc-det+pamd", "dbc-det", "dbc"),
        ),
        published="table-reference",
    )
)
