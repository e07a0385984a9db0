"""The claims on DMControl from pixels at the scale `cpu`, with a plain background and with natural videos."""

from __future__ import annotations

from pamd.experiments.base import Arm, Experiment, add
from pamd.experiments.claims import CLAIMS

__all__ = ["EXPERIMENT"]

DECISIONS = 4_000
TASKS = ("cheetah_run", "walker_stand")
PLAIN = ("sac", "zp", "deepmdp", "dbc-det", "dbc-det+pamd", "simsr", "simsr+pamd", "simsr+pamd-scaled")
VIDEO = ("sac", "deepmdp", "dbc-det", "dbc-det+pamd")


def _arm(task: str, method: str, distractor: str = "") -> Arm:
    options = {"distractor": distractor} if distractor else {}
    return Arm(task, method, DECISIONS, distractor, (), options, scale="cpu")


EXPERIMENT = add(
    Experiment(
        name="verdicts-pixels",
        title="The claims from pixels",
        shows="which claims hold on DMControl from pixels, with a plain background and with natural videos",
        arms=tuple(
            arm
            for task in TASKS
            for arm in (
                *(_arm(task, method) for method in PLAIN),
                *(_arm(task, method, "paper-video") for method in VIDEO),
            )
        ),
        claims=CLAIMS,
        seeds=5,
    )
)
