"""The identity of a run: the settings that determine its computation. It is plain data and does not require torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["identity_digest", "tree_identity"]

_NOT_IDENTITY = ("layout", "pamd", "runtime", "decisions")
"""Versions, the runtime and the budget. They are not part of a run's identity."""

_ADDED: dict[tuple[str, ...], dict[str, Any]] = {
    ("learner", "options"): {"layer_norm": False},
    ("method", "distance", "options"): {"frozen": False},
}
"""Options that are newer than published runs. Runs with these values, which have no effect, keep their names."""


def tree_identity(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the identity of a config given as plain data, such as the content of config.json."""
    left = {name: value for name, value in tree.items() if name not in _NOT_IDENTITY}
    env = left.get("env")
    # Reports also read files that do not contain a valid config.
    distractor = env.get("distractor") if isinstance(env, dict) else None
    if isinstance(env, dict) and isinstance(distractor, dict) and distractor.get("train"):
        # Videos are identified by their content. The location of the files does not matter.
        left["env"] = {**env, "distractor": {**distractor, "videos": None}}
    for path, added in _ADDED.items():
        left = _without(left, path, added)
    return left


def _without(tree: dict[str, Any], path: tuple[str, ...], added: Mapping[str, Any]) -> dict[str, Any]:
    """Return `tree` without the keys that have the values of `added` in the dictionary at `path`."""
    if not path:
        return {key: value for key, value in tree.items() if key not in added or value != added[key]}
    part = tree.get(path[0])
    return {**tree, path[0]: _without(part, path[1:], added)} if isinstance(part, dict) else tree


def identity_digest(tree: Mapping[str, Any]) -> str:
    """Return the hash of an identity. The name of a run directory ends with it."""
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:8]
