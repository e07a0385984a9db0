"""The config of a run as plain data: its layout number, its identity, and the names that it gives to the run."""

from __future__ import annotations

import hashlib
import json
import re
import reprlib
from collections.abc import Mapping
from typing import Any

from pamd.errors import CheckpointError, RunError
from pamd.schema import tree_differences

LAYOUT = 3
"""The version of the layout of run directories. A directory of another layout is rejected."""

_NOT_IDENTITY = ("layout", "pamd", "runtime", "decisions")
"""Versions, the runtime and the budget. They are not part of a run's identity."""

_ADDED: dict[str, Any] = {
    **{"angle": "exact", "evaluate_starts": "same", "act_before_update": False, "time_limit_cap": None},
    **{"evaluate_on": [], "camera_pose": 0.0, "dynamic": False, "floor": False, "expectile": 0.7, "drm": None},
}
"""Options that are newer than layout 3, with the value that all earlier runs had. At this value, an option is not part
of a run's identity, so that earlier runs keep their names."""

_ANY = object()
"""Stands for every value of an added option."""

_FIELDS = 5
"""The maximum number of edited fields that an error lists."""


def check_layout(tree: Any, what: str) -> dict[str, Any]:
    """Return `tree`, the content of config.json, if it has the current layout. Raises RunError otherwise.

    `what` is the name of the file in error messages.
    """
    if not isinstance(tree, dict):
        raise RunError(f"{what} is not the config of a run: it must be a record, got {type(tree).__name__}")
    layout = tree.get("layout", 1)
    if layout != LAYOUT:
        wrote = f" (pamd {tree['pamd']} wrote it)" if "pamd" in tree else ""
        raise RunError(
            f"{what} has layout {layout!r}{wrote}; this version reads layout {LAYOUT}."
            " Train the run again, or read it with the version that wrote it"
        )
    return tree


def tree_identity(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a config that determine the computation."""
    left = {name: value for name, value in tree.items() if name not in _NOT_IDENTITY}
    replay = left.get("replay")
    if isinstance(replay, dict) and replay.get("storage") == "auto":
        # What it becomes depends on the machine, and no result depends on it. Runs keep the name of the old default.
        left["replay"] = {**replay, "storage": "memory"}
    env = left.get("env")
    if isinstance(env, dict) and env.get("options") == {}:
        # The field is newer than layout 3, and no earlier run had options.
        env = left["env"] = {name: value for name, value in env.items() if name != "options"}
    # Reports also read files that do not contain a valid config.
    distractor = env.get("distractor") if isinstance(env, dict) else None
    if isinstance(env, dict) and isinstance(distractor, dict) and distractor.get("train"):
        # Videos are identified by their content. The location of the files does not matter.
        left["env"] = {**env, "distractor": {**distractor, "videos": None}}
    if isinstance(others := left.get("evaluate_on"), list):
        left["evaluate_on"] = [
            {**one, "videos": None} if isinstance(one, dict) and one.get("train") else one for one in others
        ]
    task = str(env.get("task")) if isinstance(env, dict) else ""
    # In a task that never terminates, the metric computes the same with and without terminations.
    added = _ADDED if _may_terminate(task) else _ADDED | {"terminations": _ANY}
    return {name: _without(added, value) for name, value in left.items() if not _has(added, name, value)}


def _may_terminate(task: str) -> bool:
    """Return whether an episode of `task` can end before its time limit. Of our own families, only LQR can."""
    name = task.removeprefix("state:")
    return (":" in name and not name.startswith("toy:")) or name.startswith("lqr_")


def _without(added: Mapping[str, Any], value: Any) -> Any:
    """Return a part of a tree without the `added` options that have the value of earlier runs."""
    if isinstance(value, dict):
        return {
            key: _without(added, inner) if isinstance(inner, dict | list) else inner
            for key, inner in value.items()
            if key not in added or not _has(added, key, inner)
        }
    return [_without(added, item) for item in value] if isinstance(value, list) else value


def _has(added: Mapping[str, Any], key: str, value: Any) -> bool:
    """Return whether `key` is an added option at the value of earlier runs."""
    return key in added and added[key] in (_ANY, value)


def identity_digest(identity: Mapping[str, Any]) -> str:
    """Return the hash of an identity. The name of a run directory ends with it."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]


def run_name(tree: Mapping[str, Any]) -> str:
    """Return the name task_method_seed_hash of a run. It does not depend on the runtime or the budget."""
    env = tree["env"]
    added = env["distractor"] or env["noise"]
    task = env["task"] + (f"+{added['name']}" if added else "")
    label = method_label(tree["learner"]["name"], tree["method"]["name"])
    task, method = (re.sub(r"[^\w+.-]|\.\.", "-", name) for name in (task, label))
    return f"{task}_{method}_s{tree['seed']}_{identity_digest(tree_identity(tree))}"


def name_digest(name: str) -> str | None:
    """Return the hash in the name of a run directory; None if it was renamed and has no hash."""
    match = re.search(r"_s[0-9]+_([0-9a-f]{8})$", name)
    return match[1] if match else None


def method_label(learner: str, method: str) -> str:
    """Return the name of the method in tables, with the learner as a prefix unless it is SAC.

    sac + none: "sac"; sac + simsr: "simsr"; drqv2 + none: "drqv2"; drqv2 + simsr: "drqv2:simsr".
    """
    if method == "none":
        return learner
    return method if learner == "sac" else f"{learner}:{method}"


def refuse_edits(tree: Mapping[str, Any], state: Mapping[str, Any], checkpoint: str, file: str = "config.json") -> None:
    """Raise RunError if the config `tree` was edited after a checkpoint was written.

    `state` is the state of the checkpoint, which holds the identity of the config.
    """
    saved = state.get("config")
    if not isinstance(saved, dict):
        raise CheckpointError(f"checkpoint {checkpoint} is malformed: it contains no config")
    identity = tree_identity(tree)
    edits = [
        f"{name} was {reprlib.repr(was)} and is {reprlib.repr(now)}"
        for name, was, now in ([] if saved == identity else tree_differences(saved, identity))
    ]
    budget = state.get("budget")
    done, planned = budget.get("decisions") if isinstance(budget, dict) else None, tree.get("decisions")
    if isinstance(done, int) and isinstance(planned, int) and done > planned:
        # The budget can be raised, so it is not part of the identity. It cannot be below the finished decisions.
        edits.append(f"decisions was at least {done} and is {planned}")
    if edits:
        more = f"; and {len(edits) - _FIELDS} more" if len(edits) > _FIELDS else ""
        raise RunError(f"{file} was edited after checkpoint {checkpoint} was made: {'; '.join(edits[:_FIELDS])}{more}")
