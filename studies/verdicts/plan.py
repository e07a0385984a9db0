"""The plan as data: the paper's claims and our own as comparisons of arms, and the arms of every rung.

The claims were stated before the runs started. plan.md is the same in words, with the reasons.
"""

from __future__ import annotations

from dataclasses import dataclass

from pamd.experiments.base import Arm, Experiment, arms
from pamd.experiments.paper import BISIMULATION, INDEPENDENT

__all__ = ["CLAIMS", "DEFAULT_RUNGS", "EXACT", "EXACT_DISTANCES", "EXPERIMENTS", "RUNGS", "Claim", "Pair"]

EXACT = "exact"
"""The rung that fits exact metrics and trains no agents."""


@dataclass(frozen=True)
class Pair:
    """Two arms whose difference decides a claim. The difference is positive if the claim holds."""

    better: str
    worse: str


@dataclass(frozen=True)
class Claim:
    """A claim and the comparisons that decide it on every rung that has runs of both arms."""

    name: str
    says: str
    pairs: tuple[Pair, ...]


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "C1",
        "PAMD improves DBC-Det and the independently coupled methods",
        (Pair("dbc-det+pamd", "dbc-det"), Pair("simsr+pamd", "simsr")),
    ),
    Claim(
        "C2",
        "a full matrix is better than an adaptive diagonal, that than a global diagonal, that than none",
        (
            Pair("dbc-det+pamd", "dbc-det+adaptive-diagonal"),
            Pair("dbc-det+adaptive-diagonal", "dbc-det+diagonal"),
            Pair("dbc-det+diagonal", "dbc-det"),
        ),
    ),
    Claim("C3", "trace normalization matters", (Pair("dbc-det+pamd", "dbc-det+pamd (no trace)"),)),
    Claim(
        "C4",
        "the gains persist with natural videos or other distracting pixels in the background",
        (
            Pair("dbc-det+pamd (paper-video)", "dbc-det (paper-video)"),
            Pair("dbc-det+pamd (noise pixels)", "dbc-det (noise pixels)"),
            Pair("simsr+pamd (noise pixels)", "simsr (noise pixels)"),
        ),
    ),
    Claim("C5", "PAMD resists absorption, and an MLP distance does not", (Pair("dbc-det+pamd", "dbc-det+mlp"),)),
    Claim("C7a", "self-prediction alone improves the learner", (Pair("zp", "sac"),)),
    Claim("C7b", "a metric improves on self-prediction", (Pair("dbc-det", "zp"), Pair("dbc-det+pamd", "zp"))),
    Claim("C7c", "PAMD improves on DeepMDP", (Pair("dbc-det+pamd", "deepmdp"),)),
    Claim(
        "C7d",
        "a reward weight of 1 - gamma, which keeps targets within reach, improves PAMD",
        (Pair("dbc-det+pamd (reward 1-gamma)", "dbc-det+pamd"),),
    ),
    Claim(
        "C7e",
        "a latent space or a scale that fits the targets improves PAMD",
        (
            Pair("dbc-det+pamd (ball)", "dbc-det+pamd"),
            Pair("dbc-det+pamd-scaled", "dbc-det+pamd"),
            Pair("simsr+pamd-scaled", "simsr+pamd"),
            Pair("simsr+pamd-scaled", "simsr"),
        ),
    ),
    Claim("C7f", "all pairs of a batch are better than one permutation", (Pair("dbc-det (all pairs)", "dbc-det"),)),
    Claim("C7g", "a vector comparison is better than a scalar one", (Pair("dbc-det+coordinate", "dbc-det"),)),
    Claim("C7h", "LayerNorm matters", (Pair("dbc-det+pamd", "dbc-det+pamd (free)"),)),
    Claim(
        "C7i",
        "at a reward weight of 1 - gamma, PAMD improves DBC-Det, and both improve on methods without a metric",
        (
            Pair("dbc-det+pamd (reward 1-gamma)", "dbc-det (reward 1-gamma)"),
            Pair("dbc-det+pamd (reward 1-gamma)", "dbc-det+diagonal (reward 1-gamma)"),
            Pair("dbc-det (reward 1-gamma)", "dbc-det"),
            Pair("dbc-det+pamd (reward 1-gamma)", "deepmdp"),
            Pair("dbc-det+pamd (reward 1-gamma)", "zp"),
            Pair("dbc-det+pamd (reward 1-gamma)", "sac"),
        ),
    ),
    Claim(
        "C8",
        "PAMD improves on a fixed comparator of its own scale, and on the released per-coordinate one",
        (
            Pair("dbc-det+pamd", "dbc-det+l2 (scale of PAMD)"),
            Pair("dbc-det+pamd", "dbc-det (mean)"),
            Pair("dbc-det+pamd", "dbc-det+coordinate"),
        ),
    ),
)

_NO_TRACE = "method.metric.distance.trace_normalized=false"
_SMALL_REWARD = "method.metric.operator.c_R=1-gamma"

# The rung `exact`: fits of exact metrics, for which the truth is known.

EXACT_DISTANCES = (
    "l1",
    "cosine",
    "coordinate",
    "diagonal",
    "adaptive-diagonal",
    "pamd",
    "pamd-scaled",
    "mlp",
)

# The rung `toy`: a task that is learned from pixels in minutes, for every distance.

_TOY_DECISIONS = 1_500
_TOY_METHODS = (
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
_TOY_SMALL = (
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


_TOY_DISTRACTED = ("sac", "zp", "deepmdp", "dbc-det", "dbc-det+pamd", "dbc-det+mlp", "simsr", "simsr+pamd")
"""The methods that also run with distracting pixels."""


def _toy_arm(method: str, variant: str = "", *settings: str, **options: str) -> Arm:
    return Arm("toy:goal", method, _TOY_DECISIONS, variant, (*_TOY_SMALL, *settings), options, scale="cpu")


_TOY = Experiment(
    name="verdicts-toy",
    title="The claims on the toy task",
    shows="which claims hold on a task that is learned in minutes, with and without distracting pixels",
    arms=(
        *(_toy_arm(method) for method in _TOY_METHODS),
        _toy_arm("dbc-det+pamd", "no trace", _NO_TRACE),
        *(_toy_arm(method, "noise pixels", distractor="noise") for method in _TOY_DISTRACTED),
    ),
    seeds=10,
)

# The rung `states`: without convolutions, a run takes minutes, so more seeds are affordable.

_STATE_DECISIONS, _STATE_ACTION_REPEAT = 8_000, 8
"""Decisions are fewer and longer than in the paper, so that a task is learned sooner."""
_STATE_TASKS = ("cartpole_swingup", "ball_in_cup_catch", "finger_spin", "walker_stand")
_EXTRA_TASKS = ("cartpole_swingup", "ball_in_cup_catch")
"""The tasks of the arms that only the C7 claims use."""
_CONTROL_TASKS = ("cartpole_swingup", "finger_spin", "walker_stand")
"""The tasks of the fixed norms at PAMD's scale. ball_in_cup_catch is all or nothing and decides little."""
_STATE_SMALL = (
    "env.noise.coordinates=8",
    "env.noise.deviation=1",
    "encoder.hidden=128",
    "learner.hidden=128",
    "learner.updates_per_decision=0.33",
    "evaluate_every=2000",
    "evaluate_episodes=3",
)


def _state_arm(task: str, method: str, variant: str = "", *settings: str) -> Arm:
    # One latent model instead of SimSR's five, which would take three times as long as the rest of the update.
    one_model = ("method.transition.members=1",) if method.startswith("simsr") else ()
    options = {"action_repeat": _STATE_ACTION_REPEAT, "noise": "gaussian"}
    return Arm(
        f"state:{task}",
        method,
        _STATE_DECISIONS,
        variant,
        (*_STATE_SMALL, *one_model, *settings),
        options,
        scale="state",
    )


def _everywhere(task: str) -> tuple[Arm, ...]:
    return (
        _state_arm(task, "sac"),
        _state_arm(task, "zp"),
        _state_arm(task, "deepmdp"),
        _state_arm(task, "dbc-det"),
        _state_arm(task, "dbc-det+pamd"),
        _state_arm(task, "simsr"),
        _state_arm(task, "simsr+pamd"),
        _state_arm(task, "simsr+pamd-scaled"),
        _state_arm(task, "dbc-det+mlp"),
        _state_arm(task, "dbc-det+diagonal"),
        _state_arm(task, "dbc-det+adaptive-diagonal"),
        _state_arm(task, "dbc-det+pamd", "no trace", _NO_TRACE),
        *(
            _state_arm(task, method, "reward 1-gamma", _SMALL_REWARD)
            for method in ("dbc-det", "dbc-det+diagonal", "dbc-det+pamd")
        ),
    )


def _extra(task: str) -> tuple[Arm, ...]:
    return (
        _state_arm(task, "dbc-det+pamd", "ball", "method.latent_space=ball"),
        _state_arm(task, "dbc-det+pamd", "free", "method.latent_space=free"),
        _state_arm(task, "dbc-det+pamd-scaled"),
        _state_arm(task, "dbc-det", "all pairs", "method.metric.pairing=all"),
        _state_arm(task, "dbc-det+coordinate"),
    )


def _controls(task: str) -> tuple[Arm, ...]:
    """Return fixed norms at PAMD's scale: l2 / sqrt(d) and the mean of |z - z'|, for d = 50.

    Both are written as the plain norm with another c_R and weight, which gives the same loss: the square of
    a * (norm - c_R * gap - ...) is a^2 times that of the norm, with c_R = 1 / a.
    """
    scaled_l2 = ("method.metric.operator.c_R=7.0710678118654755", "method.metric.weight=0.01")
    mean_l1 = ("method.metric.operator.c_R=50", "method.metric.weight=0.0002")
    return (
        _state_arm(task, "dbc-det+l2", "scale of PAMD", *scaled_l2),
        _state_arm(task, "dbc-det", "mean", *mean_l1),
        *(() if task in _EXTRA_TASKS else (_state_arm(task, "dbc-det+coordinate"),)),
    )


_STATES = Experiment(
    name="verdicts-states",
    title="The claims on states with noise",
    shows="which claims hold where 8 coordinates of noise stand next to the state",
    arms=(
        *(arm for task in _STATE_TASKS for arm in _everywhere(task)),
        *(arm for task in _EXTRA_TASKS for arm in _extra(task)),
        *(arm for task in _CONTROL_TASKS for arm in _controls(task)),
    ),
    seeds=5,
)

# The rung `pixels`: DMControl from pixels at the scale `cpu`.

_PIXEL_DECISIONS = 4_000
_PIXEL_TASKS = ("cheetah_run", "walker_stand")
_PLAIN = ("sac", "zp", "deepmdp", "dbc-det", "dbc-det+pamd", "simsr", "simsr+pamd", "simsr+pamd-scaled")
_SMALLER_REWARD = ("dbc-det", "dbc-det+pamd")
"""The methods that also run with a reward weight of 1 - gamma, on a plain background."""
_VIDEO = ("sac", "deepmdp", "dbc-det", "dbc-det+pamd")


_PLANNED = "learner.layer_norm=false"
"""The scale had no LayerNorm in the actor and critic when these runs were planned and trained."""


def _pixel_arm(task: str, method: str, variant: str = "", *settings: str, **options: str) -> Arm:
    return Arm(task, method, _PIXEL_DECISIONS, variant, (_PLANNED, *settings), options, scale="cpu")


def _pixel_arms(task: str) -> tuple[Arm, ...]:
    return (
        *(_pixel_arm(task, method) for method in _PLAIN),
        *(_pixel_arm(task, method, "reward 1-gamma", _SMALL_REWARD) for method in _SMALLER_REWARD),
        *(_pixel_arm(task, method, "paper-video", distractor="paper-video") for method in _VIDEO),
    )


_PIXELS = Experiment(
    name="verdicts-pixels",
    title="The claims from pixels",
    shows="which claims hold on DMControl from pixels, with a plain background and with natural videos",
    arms=tuple(arm for task in _PIXEL_TASKS for arm in _pixel_arms(task)),
    seeds=5,
)

# The rung `paper`: it would take years on two cores.

_PAPER_METHODS = ("sac", "zp", "deepmdp", "dbc-det", "dbc-det+pamd")
_PAPER_ABLATIONS = ("dbc-det+adaptive-diagonal", "dbc-det+diagonal", "dbc-det+mlp")
_PAPER_COUPLED = ("simsr", "simsr+pamd", "simsr+pamd-scaled")
_PAPER_VIDEO = ("sac", "deepmdp", "dbc-det", "dbc-det+pamd")


def _paper_variant(method: str, variant: str, setting: str) -> tuple[Arm, ...]:
    return arms(BISIMULATION, method, variant=variant, settings=(setting,), scale="paper")


_PAPER = Experiment(
    name="verdicts-paper",
    title="The claims at the paper's scale",
    shows="which claims hold with the paper's networks, tasks and budgets",
    arms=(
        *arms(BISIMULATION, *_PAPER_METHODS, *_PAPER_ABLATIONS, scale="paper"),
        *_paper_variant("dbc-det+pamd", "no trace", _NO_TRACE),
        *_paper_variant("dbc-det", "reward 1-gamma", _SMALL_REWARD),
        *_paper_variant("dbc-det+pamd", "reward 1-gamma", _SMALL_REWARD),
        *arms(INDEPENDENT, *_PAPER_COUPLED, scale="paper"),
        *arms(
            {"cheetah_run": BISIMULATION["cheetah_run"]},
            *_PAPER_VIDEO,
            variant="paper-video",
            options={"distractor": "paper-video"},
            scale="paper",
        ),
    ),
    seeds=5,
)

EXPERIMENTS = {"toy": _TOY, "states": _STATES, "pixels": _PIXELS, "paper": _PAPER}
"""The rungs that train agents, from the cheapest task to the most realistic one."""
RUNGS = (EXACT, *EXPERIMENTS)
DEFAULT_RUNGS = RUNGS[:-1]
"""The rungs that run if none is named: all but `paper`."""
