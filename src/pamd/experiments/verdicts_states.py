"""The claims on states with noise. Without convolutions, a run takes minutes, so more seeds are affordable."""

from __future__ import annotations

from pamd.experiments.base import Arm, Experiment, add
from pamd.experiments.claims import CLAIMS

__all__ = ["EXPERIMENT"]

DECISIONS, ACTION_REPEAT = 8_000, 8
"""Decisions are fewer and longer than in the paper, so that a task is learned sooner."""
TASKS = ("cartpole_swingup", "ball_in_cup_catch", "finger_spin", "walker_stand")
EXTRA_TASKS = ("cartpole_swingup", "ball_in_cup_catch")
"""The tasks of the arms that only the C7 claims use."""
CONTROL_TASKS = ("cartpole_swingup", "finger_spin", "walker_stand")
"""The tasks of the fixed norms at PAMD's scale. ball_in_cup_catch is all or nothing and decides little."""
_SMALL = (
    "env.noise.coordinates=8",
    "env.noise.deviation=1",
    "encoder.hidden=128",
    "learner.hidden=128",
    "learner.updates_per_decision=0.33",
    "evaluate_every=2000",
    "evaluate_episodes=3",
)
_OPERATOR = "method.operator"


def _arm(task: str, method: str, variant: str = "", *settings: str) -> Arm:
    # One latent model instead of SimSR's five, which would take three times as long as the rest of the update.
    one_model = ("method.ensemble=1",) if method.startswith("simsr") else ()
    options = {"action_repeat": ACTION_REPEAT, "noise": "gaussian"}
    return Arm(f"state:{task}", method, DECISIONS, variant, (*_SMALL, *one_model, *settings), options, scale="state")


def _everywhere(task: str) -> tuple[Arm, ...]:
    return (
        _arm(task, "sac"),
        _arm(task, "zp"),
        _arm(task, "deepmdp"),
        _arm(task, "dbc-det"),
        _arm(task, "dbc-det+pamd"),
        _arm(task, "simsr"),
        _arm(task, "simsr+pamd"),
        _arm(task, "simsr+pamd-scaled"),
        _arm(task, "dbc-det+mlp"),
        _arm(task, "dbc-det+diagonal"),
        _arm(task, "dbc-det+adaptive-diagonal"),
        _arm(task, "dbc-det+pamd", "no trace", "method.distance.trace_normalised=false"),
        *(
            _arm(task, method, "reward 1-gamma", f"{_OPERATOR}.c_R=1-gamma")
            for method in ("dbc-det", "dbc-det+diagonal", "dbc-det+pamd")
        ),
    )


def _extra(task: str) -> tuple[Arm, ...]:
    return (
        _arm(task, "dbc-det+pamd", "ball", "method.latent_space=ball"),
        _arm(task, "dbc-det+pamd", "free", "method.latent_space=free"),
        _arm(task, "dbc-det+pamd-scaled"),
        _arm(task, "dbc-det", "all pairs", "method.objective.pairing=all"),
        _arm(task, "dbc-det+coordinate"),
    )


def _controls(task: str) -> tuple[Arm, ...]:
    """Return fixed norms at PAMD's scale: l2 / sqrt(d) and the mean of |z - z'|, for d = 50.

    Both are written as the plain norm with another c_R and weight, which gives the same loss: the square of
    a * (norm - c_R * gap - ...) is a^2 times that of the norm, with c_R = 1 / a.
    """
    scaled_l2 = (f"{_OPERATOR}.c_R=7.0710678118654755", "method.objective.weight=0.01")
    mean_l1 = (f"{_OPERATOR}.c_R=50", "method.objective.weight=0.0002")
    return (
        _arm(task, "dbc-det+l2", "scale of PAMD", *scaled_l2),
        _arm(task, "dbc-det", "mean", *mean_l1),
        *(() if task in EXTRA_TASKS else (_arm(task, "dbc-det+coordinate"),)),
    )


EXPERIMENT = add(
    Experiment(
        name="verdicts-states",
        title="The claims on states with noise",
        shows="which claims hold where 8 coordinates of noise stand next to the state",
        arms=(
            *(arm for task in TASKS for arm in _everywhere(task)),
            *(arm for task in EXTRA_TASKS for arm in _extra(task)),
            *(arm for task in CONTROL_TASKS for arm in _controls(task)),
        ),
        claims=CLAIMS,
        seeds=5,
    )
)
