"""The runs of the study as data: methods, tasks, budgets and seeds. plan.md explains them."""

from __future__ import annotations

from pathlib import Path

from pamd.configuration import configure
from pamd.experiments import Labeled

__all__ = ["HERE", "METHODS", "SEEDS", "TASKS", "runs"]

HERE = Path(__file__).parent
METHODS = ("none", "deepmdp", "curl", "taco", "mrq", "dbc-unit+pamd")
TASKS = {"cartpole_swingup": 10_000, "walker_walk": 20_000}
"""The tasks, with their budgets in decisions."""
SEEDS = range(2)


def runs() -> list[Labeled]:
    """Return the runs. All methods of a task and seed come before the next task, so an unfinished study compares."""
    return [
        Labeled(method, configure(task, method, scale="cpu", seed=seed, decisions=decisions))
        for seed in SEEDS
        for task, decisions in TASKS.items()
        for method in METHODS
    ]
