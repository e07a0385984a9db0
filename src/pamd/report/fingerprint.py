"""Check config.json against the copy in the checkpoints of a run.

training/checkpoint.py defines the files of a checkpoint. It is not imported here because it needs torch.
"""

from __future__ import annotations

import hashlib
import re
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pamd.config import tree_differences
from pamd.errors import RunError
from pamd.identity import identity_digest, tree_identity
from pamd.report import files
from pamd.report.text import parse_json

__all__ = ["Verified", "verify_config"]

_FIELDS = 5
"""The maximum number of edited fields that an error lists."""


class Verified(NamedTuple):
    """The evidence that a config was not edited."""

    by: str
    """The checkpoint, or the directory name, which contains a digest of the config; "" if there is no evidence."""
    notice: str = ""
    """A notice about the checkpoints for the reader of the report; "" if there is none."""


def verify_config(directory: Path, config: Mapping[str, Any]) -> Verified:
    """Compare config.json with the newest readable checkpoint that has a config.

    Raises RunError with the edited fields if the two differ.

    Runs of version 0.1.0 have no config in their checkpoints, and published results have no checkpoints. Their config
    can be verified only by the directory name.
    """
    names = [name for name in files.names_in(directory, "checkpoints") if re.fullmatch("[0-9]{9,18}", name)]
    readable = False
    for name in sorted(names, key=int, reverse=True):
        state = _state(directory, name)
        if state is None:
            continue
        readable = True
        if isinstance(state.get("config"), dict):
            _refuse_edits(directory, name, state, config)
            return Verified(f"checkpoint {name}")
    notice = "" if readable or not names else "no checkpoint can be read, so config.json cannot be confirmed"
    digest = identity_digest(tree_identity(config))
    return Verified("the digest in its name" if directory.resolve().name.endswith(f"_{digest}") else "", notice)


def _refuse_edits(directory: Path, name: str, state: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    found = [
        f"{field} was {reprlib.repr(was)} and is {reprlib.repr(now)}"
        for field, was, now in tree_differences(state["config"], tree_identity(config))
    ]
    budget = state.get("budget")
    done = budget.get("decisions") if isinstance(budget, dict) else None
    if isinstance(done, int) and done > config["decisions"]:
        # The budget can be raised, so it is not part of the identity. It cannot be below the finished decisions.
        found.append(f"decisions was at least {done} and is {config['decisions']}")
    if found:
        more = f"; and {len(found) - _FIELDS} more" if len(found) > _FIELDS else ""
        fields = "; ".join(found[:_FIELDS]) + more
        raise RunError(f"{directory / 'config.json'} was edited after checkpoint {name} was made: {fields}")


def _state(directory: Path, name: str) -> dict[str, Any] | None:
    """Read state.json of a checkpoint; None if it cannot be read or has changed since it was written."""
    place = f"checkpoints/{name}"
    try:
        data = files.read(directory, f"{place}/state.json")
        digests = parse_json(files.read(directory, f"{place}/complete.json"))
        if not isinstance(digests, dict) or digests.get("state.json") != hashlib.sha256(data).hexdigest():
            return None
        state = parse_json(data)
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) else None
