"""The claims on the numpy task from pixels, plain and with distracting pixels: every distance, ten seeds."""

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
    "learner.random_decisions=64",
    "evaluate_every=250",
    "evaluate_episodes=10",
)


def _arm(method: str, background: str | None, variant: str = "", *settings: str) -> Arm:
    options = {} if background is None else {"distractor": background}
    return Arm("toy:goal", method, DECISIONS, variant, (*_SMALL, *settings), options, scale="cpu")


def _arms(background: str | None) -> tuple[Arm, ...]:
    no_trace = _arm("dbc-det+pamd", background, "no trace", "method.distance.trace_normalised=false")
    return (*(_arm(method, background) for method in METHODS), no_trace)


EXPERIMENT = add(
    Experiment(
        name="verdicts-toy",
        title="The claims on the toy task",
        shows="which claims hold on a task that is learned in minutes, with and without distracting pixels",
        arms=(*_arms(None), *_arms("noise")),
        claims=CLAIMS,
        seeds=10,
    )
)
