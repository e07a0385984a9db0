"""tab:recent_visual_rl_comparison. Methods of other papers appear as published numbers only."""

from __future__ import annotations

from pamd.experiments.base import Experiment, add, arms
from pamd.experiments.budgets import BISIMULATION, INDEPENDENT, WALKER_RUN

__all__ = ["EXPERIMENT"]

_SHARED = ("cheetah_run", "hopper_hop")
_TASKS = ("acrobot_swingup", *_SHARED)

EXPERIMENT = add(
    Experiment(
        name="table-reference",
        title="Compared with recent visual reinforcement learning",
        shows="returns of the methods on four tasks; compare at the budget of each published number",
        arms=(
            *arms({task: INDEPENDENT[task] for task in _TASKS}, "simsr+pamd", "mico", "simsr"),
            *arms({"walker_run": WALKER_RUN}, "simsr+pamd", "simsr"),
            # The column DBC contains numbers of DBC-Det for cheetah_run, so both are included.
            *arms({task: BISIMULATION[task] for task in _SHARED}, "dbc-det+pamd", "dbc-det", "dbc"),
        ),
        published="table-reference",
    )
)
