"""The claims on states with noise: no convolutions, so that a run takes minutes and seeds are affordable."""

from __future__ import annotations

from pamd.experiments.base import Arm, Experiment, add
from pamd.experiments.claims import CLAIMS

__all__ = ["EXPERIMENT"]

DECISIONS = 10_000
TASKS = {"cartpole_swingup": 8, "cheetah_run": 4, "walker_walk": 4, "finger_spin": 4}
"""Action repeats. Larger ones than the paper's: an episode has fewer decisions, so it is learned sooner."""
EXTRA_TASKS = ("cartpole_swingup", "walker_walk")
"""The tasks of the arms that only C7 reads."""

_OPERATOR = "method.operator"


def _arm(task: str, method: str, variant: str = "", *settings: str) -> Arm:
    options = {"action_repeat": TASKS[task], "noise": "projected"}
    return Arm(f"state:{task}", method, DECISIONS, variant, settings, options, scale="state")


def _everywhere(task: str) -> tuple[Arm, ...]:
    return (
        _arm(task, "sac"),
        _arm(task, "zp"),
        _arm(task, "deepmdp"),
        _arm(task, "dbc-det"),
        _arm(task, "dbc-det+pamd"),
        _arm(task, "simsr"),
        _arm(task, "simsr+pamd"),
        _arm(task, "dbc-det+mlp"),
        _arm(task, "dbc-det+diagonal"),
        _arm(task, "dbc-det+adaptive-diagonal"),
        _arm(task, "dbc-det+pamd", "no trace", "method.distance.trace_normalised=false"),
    )


def _extra(task: str) -> tuple[Arm, ...]:
    return (
        _arm(task, "dbc-det+pamd", "reward 1-gamma", f"{_OPERATOR}.c_R=1-gamma"),
        _arm(task, "dbc-det+pamd", "ball", "method.latent_space=ball"),
        _arm(task, "dbc-det+pamd", "free", "method.latent_space=free"),
        _arm(task, "dbc-det+pamd-scaled"),
        _arm(task, "dbc-det", "all pairs", "method.objective.pairing=all"),
        _arm(task, "dbc-det+coordinate"),
    )


EXPERIMENT = add(
    Experiment(
        name="verdicts-states",
        title="The claims on states with noise",
        shows="which claims hold where 32 noise coordinates are mixed with the state",
        arms=(
            *(arm for task in TASKS for arm in _everywhere(task)),
            *(arm for task in EXTRA_TASKS for arm in _extra(task)),
        ),
        claims=CLAIMS,
        seeds=5,
    )
)
