"""The claims on DMControl from pixels at the scale `cpu`, with a plain background and with natural videos."""

from __future__ import annotations

from pamd.experiments.base import Arm, Experiment, add
from pamd.experiments.claims import CLAIMS

__all__ = ["EXPERIMENT"]

DECISIONS = 4_000
TASKS = ("cheetah_run", "walker_stand")
PLAIN = ("sac", "zp", "deepmdp", "dbc-det", "dbc-det+pamd", "simsr", "simsr+pamd", "simsr+pamd-scaled")
SMALLER_REWARD = ("dbc-det", "dbc-det+pamd")
"""The methods that also run with a reward weight of 1 - gamma, on a plain background."""
VIDEO = ("sac", "deepmdp", "dbc-det", "dbc-det+pamd")


_PLANNED = "learner.layer_norm=false"
"""The scale had no LayerNorm in the actor and critic when these runs were planned and trained."""


def _arm(task: str, method: str, variant: str = "", *settings: str, **options: str) -> Arm:
    return Arm(task, method, DECISIONS, variant, (_PLANNED, *settings), options, scale="cpu")


def _arms(task: str) -> tuple[Arm, ...]:
    return (
        *(_arm(task, method) for method in PLAIN),
        *(_arm(task, method, "reward 1-gamma", "method.operator.c_R=1-gamma") for method in SMALLER_REWARD),
        *(_arm(task, method, "paper-video", distractor="paper-video") for method in VIDEO),
    )


EXPERIMENT = add(
    Experiment(
        name="verdicts-pixels",
        title="The claims from pixels",
        shows="which claims hold on DMControl from pixels, with a plain background and with natural videos",
        arms=tuple(arm for task in TASKS for arm in _arms(task)),
        claims=CLAIMS,
        seeds=5,
    )
)
