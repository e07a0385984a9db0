"""The runs of the study as data: tasks, precisions and seeds. plan.md explains them."""

from __future__ import annotations

from pathlib import Path

from pamd.configuration import configure
from pamd.experiments import Labeled
from pamd.precision import Precision

__all__ = ["DECISIONS", "HERE", "METHOD", "PRECISIONS", "SEEDS", "TASKS", "runs"]

HERE = Path(__file__).parent
METHOD = "dbc-det+pamd"
TASKS = ("cartpole_swingup", "walker_walk")
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16")
SEEDS = range(5)
DECISIONS = 20_000


def runs(decisions: int = DECISIONS, seeds: int = len(SEEDS)) -> list[Labeled]:
    """Return the runs. Both precisions of a seed come one after the other, so an unfinished study has pairs."""
    return [
        Labeled(
            precision,
            configure(
                task,
                METHOD,
                scale="cpu",
                seed=seed,
                precision=precision,
                decisions=decisions,
                evaluate_every=min(2_000, decisions // 2),
                evaluate_episodes=10,
                settings=(f"learner.random_decisions={min(500, decisions // 2)}",),
            ),
        )
        for seed in SEEDS[:seeds]
        for task in TASKS
        for precision in PRECISIONS
    ]
