"""The claims at the paper's scale and budgets. This takes years on two cores, so it runs only with `--rung paper`."""

from __future__ import annotations

from pamd.experiments.base import Arm, Experiment, add, arms
from pamd.experiments.budgets import BISIMULATION, INDEPENDENT
from pamd.experiments.claims import CLAIMS

__all__ = ["EXPERIMENT"]

_METHODS = ("sac", "zp", "deepmdp", "dbc-det", "dbc-det+pamd")
_ABLATIONS = ("dbc-det+adaptive-diagonal", "dbc-det+diagonal", "dbc-det+mlp")
_COUPLED = ("simsr", "simsr+pamd", "simsr+pamd-scaled")
_VIDEO = ("sac", "deepmdp", "dbc-det", "dbc-det+pamd")


def _variant(method: str, variant: str, setting: str) -> tuple[Arm, ...]:
    return arms(BISIMULATION, method, variant=variant, settings=(setting,), scale="paper")


EXPERIMENT = add(
    Experiment(
        name="verdicts-paper",
        title="The claims at the paper's scale",
        shows="which claims hold with the paper's networks, tasks and budgets",
        arms=(
            *arms(BISIMULATION, *_METHODS, *_ABLATIONS, scale="paper"),
            *_variant("dbc-det+pamd", "no trace", "method.distance.trace_normalised=false"),
            *_variant("dbc-det", "reward 1-gamma", "method.operator.c_R=1-gamma"),
            *_variant("dbc-det+pamd", "reward 1-gamma", "method.operator.c_R=1-gamma"),
            *arms(INDEPENDENT, *_COUPLED, scale="paper"),
            *arms(
                {"cheetah_run": BISIMULATION["cheetah_run"]},
                *_VIDEO,
                variant="paper-video",
                options={"distractor": "paper-video"},
                scale="paper",
            ),
        ),
        claims=CLAIMS,
        seeds=5,
    )
)
