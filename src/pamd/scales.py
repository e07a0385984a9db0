"""The scales: sizes and budgets of runs, by name."""

from __future__ import annotations

from typing import Any

_SMALL_SHIFT = {"name": "random-shift", "options": {"pixels": 1}}
# The published settings of DrQ-v2 are meant for a million frames.
_SMALL_DRQV2 = {"learning_rate": 5e-4, "hidden": 256, "updates_per_decision": 1.0, "noise_decisions": 10_000}

SCALES: dict[str, dict[str, Any]] = {
    "paper": {
        "decisions": 1_000_000,
        "evaluate_every": 10_000,
        "evaluate_episodes": 10,
    },
    "cpu": {
        "env": {"size": 32, "render": "fast", "antialias": 3},
        "action_repeat": {
            "cartpole_swingup": 8,
            "finger_spin": 4,
            "reacher_easy": 4,
            "walker_stand": 4,
            "walker_walk": 4,
        },
        "encoder": {"conv": {"filters": 16, "strides": [2, 2], "input": "differences"}},
        "method": {"targets": {"tau": 0.05, "every": 1}},
        "learner": {
            "any": {
                "batch": 64,
                "random_decisions": 500,
                "n_step": 3,
                "critic_tau": 0.01,
                "augmentation": _SMALL_SHIFT,
                "layer_norm": True,
            },
            "sac": {"actor_every": 1, "targets_every": 1, "learning_rate": 3e-3},
            "drqv2": _SMALL_DRQV2,
            "drm": {**_SMALL_DRQV2, "drm": {"perturb_every": 5_000}},
        },
        "schedule": "joint",
        "decisions": 20_000,
        "evaluate_every": 1_000,
        "evaluate_episodes": 5,
    },
    "state": {
        "method": {"targets": {"every": 1}},
        "learner": {
            "any": {"batch": 64, "hidden": 256, "random_decisions": 500, "critic_tau": 0.01},
            "sac": {"actor_every": 1, "targets_every": 1},
        },
        "schedule": "joint",
        "decisions": 10_000,
        "evaluate_every": 1_000,
        "evaluate_episodes": 5,
        "checkpoint_every": 2_500,
    },
    "smoke": {
        "env": {"size": 24, "render": "fast", "time_limit_cap": 40},
        "encoder": {"conv": {"filters": 8, "strides": [2, 2]}, "mlp": {"hidden": 32}},
        "learner": {
            "any": {"batch": 16, "random_decisions": 50, "first_updates": None},
            "drm": {"drm": {"measure_every": 10, "perturb_every": 40}},
        },
        "decisions": 200,
        "evaluate_every": 100,
        "evaluate_episodes": 1,
        "checkpoint_every": 50,
        "log_every": 10,
    },
}
"""Sizes and budgets as changes to a config. The scale is independent of method, fidelity and learner.

The options of an encoder or learner are listed under its name, those of every learner under "any". An action repeat is
listed under the task's name. `cpu` was chosen by the time to reach a return (docs/performance.md). `state` is for
observations that are state vectors.
"""
