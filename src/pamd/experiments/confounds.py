"""Confounds of the paper's comparison: four differences besides the comparator, and two simpler baselines.

The task is cheetah_run, which both operator families share at the same action repeat. Each arm changes one thing.
"""

from __future__ import annotations

from pamd.experiments.base import Arm, Experiment, add

_TASK, _DECISIONS = "cheetah_run", 1_000_000
_ALL_PAIRS = ("method.metric.pairing=all",)
_SMALL_REWARD = ("method.metric.operator.options.c_R=1-gamma",)


def _arm(method: str, variant: str = "", settings: tuple[str, ...] = (), schedule: str = "joint") -> Arm:
    # Every arm sets its schedule because the scales have different defaults.
    return Arm(_TASK, method, _DECISIONS, variant, settings, {"schedule": schedule})


EXPERIMENT = add(
    Experiment(
        name="confounds",
        title="Other differences that accompany the comparator",
        shows="pair count, vector against scalar comparison, self-prediction, schedule and the scale of the target",
        arms=(
            _arm("sac"),
            _arm("deepmdp"),
            _arm("dbc-det"),
            _arm("dbc-det+coordinate"),
            _arm("dbc-det", "reward 1-gamma", _SMALL_REWARD),
            _arm("dbc-det+pamd"),
            _arm("dbc-det+pamd", "reward 1-gamma", _SMALL_REWARD),
            _arm("dbc-det+pamd", "sequential", schedule="sequential"),
            _arm("simsr"),
            _arm("simsr", "all pairs", _ALL_PAIRS),
            _arm("simsr+pamd"),
            _arm("simsr+pamd", "all pairs", _ALL_PAIRS),
            _arm("simsr+pamd", "reward 1-gamma", _SMALL_REWARD),
            _arm("simsr+pamd", "sequential", schedule="sequential"),
        ),
    )
)
