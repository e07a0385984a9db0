"""The identity of a run: what makes two runs the same computation. Plain data, so it needs no torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["identity_digest", "tree_identity"]

_NOT_IDENTITY = ("layout", "pamd", "runtime", "decisions")
"""Versions, the runtime and the budget: a run keeps its identity when they change."""

_ADDED = {"learner": {"layer_norm": False}}
"""Options that are newer than published runs, with the value that changes nothing: those runs keep their names."""


def tree_identity(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of a config that is plain data, such as the content of a config.json."""
    left = {name: value for name, value in tree.items() if name not in _NOT_IDENTITY}
    env = left.get("env")
    # A report also reads files that hold no valid config.
    distractor = env.get("distractor") if isinstance(env, dict) else None
    if isinstance(env, dict) and isinstance(distractor, dict) and distractor.get("train"):
        # Videos are named by their content. Where the files are does not matter.
        left["env"] = {**env, "distractor": {**distractor, "videos": None}}
    for name, added in _ADDED.items():
        part = left.get(name)
        if isinstance(part, dict) and isinstance(options := part.get("options"), dict):
            kept = {key: value for key, value in options.items() if key not in added or value != added[key]}
            left[name] = {**part, "options": kept}
    return left


def identity_digest(tree: Mapping[str, Any]) -> str:
    """The hash of an identity. The name of a run directory ends with it."""
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:8]
