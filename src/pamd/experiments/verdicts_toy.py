"""The claims on the NumPy toy task from pixels for every distance, with and without distracting pixels."""

from __future__ import annotations

from pamd.experiments.base import Arm, Experiment, add
from pamd.experiments.claims import CLAIMS

__all__ = ["EXPERIMENT"]

DECISIONS = 1_500
METHODS = (
    "sac",
    "zp",
    "deepmdp",
    "dbc-det",
    "dbc-det+l2",
    "dbc-det+cosine",
    "dbc-det+mico",
    "dbc-det+coordinate",
    "dbc-det+diagonal",
    "dbc-det+adaptive-diagonal",
    "dbc-det+pamd",
    "dbc-det+pamd-lowrank",
    "dbc-det+pamd-block",
    "dbc-det+pamd-scaled",
    "dbc-det+mlp",
    "simsr",
    "simsr+pamd",
    "simsr+pamd-scaled",
)
_SMALL = (
    "env.size=24",
    "encoder.filters=16",
    "encoder.strides=[2,2]",
    "learner.batch=64",
    "learner.hidden=128",
    "learner.layer_norm=false",
    "learner.random_decisions=64",
    "evaluate_every=250",
    "evaluate_episodes=10",
)


DISTRACTED = ("sac", "zp", "deepmdp", "dbc-det", "dbc-det+pamd", "dbc-det+mlp", "simsr", "simsr+pamd")
"""The methods that also run with distracting pixels."""


def _arm(method: str, variant: str = "", *settings: str, **options: str) -> Arm:
    return Arm("toy:goal", method, DECISIONS, variant, (*_SMALL, *settings), options, scale="cpu")


EXPERIMENT = add(
    Experiment(
        name="verdicts-toy",
        title="The claims on the toy task",
        shows="which claims hold on a task that is learned in minutes, with and without distracting pixels",
        arms=(
            *(_arm(method) for method in METHODS),
            _arm("dbc-det+pamd", "no trace", "method.distance.trace_normalised=false"),
            *(_arm(method, "noise pixels", distractor="noise") for method in DISTRACTED),
        ),
        claims=CLAIMS,
        seeds=10,
    )
)
