"""What a report reads from the config of a run. No other module of the report knows the keys of the tree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pamd.errors import RunError
from pamd.runs.files import printable
from pamd.runs.identity import check_layout, method_label

_FIELDS: dict[str, type] = {
    "seed": int, "decisions": int, "scale": str, "env": dict, "env.task": str, "env.action_repeat": int,
    "learner": dict, "learner.name": str, "method": dict, "method.name": str, "method.fidelity": str,
}  # fmt: skip
"""The fields that a report reads, and their types."""
_OPTIONAL: dict[str, dict[str, type]] = {
    "replay": {"replay": dict},
    "env.distractor": {"env.distractor": dict, "env.distractor.name": str},
    "env.noise": {"env.noise": dict, "env.noise.name": str},
}
"""Fields that may be missing or null, and the types of what they contain."""
_LARGEST = 2**53
"""The largest count that a floating-point number represents exactly."""
_LEAST = {"decisions": 1, "seed": 0, "env.action_repeat": 1}
_NOT_COLUMN = {
    "layout", "pamd", "env", "scale", "seed", "decisions", "replay", "runtime",
    "evaluate_every", "evaluate_unit", "evaluate_episodes", "evaluate_on", "checkpoint_every", "log_every",
}  # fmt: skip
"""Config keys that do not distinguish methods: setting, seed, version, runtime, evaluation, checkpoints and logging."""


def parse_config(config: Any, what: str) -> dict[str, Any]:
    """Return a JSON tree as a config with printable text. Raises RunError if it is not the config of a run.

    `what` is the name of the file in error messages.
    """
    check_layout(config, what)
    fields = dict(_FIELDS)
    for name, optional in _OPTIONAL.items():
        if _value(config, name) is not None:
            fields |= optional
    for name, kind in fields.items():
        value: Any = _value(config, name)
        wrong = f"{what} is not the config of a run: {name} must be"
        if not isinstance(value, kind) or isinstance(value, bool):
            raise RunError(f"{wrong} {kind.__name__}, got {value!r}")
        if isinstance(value, int) and not _LEAST[name] <= value <= _LARGEST:
            raise RunError(f"{wrong} between {_LEAST[name]} and {_LARGEST}, got {value!r}")
    return dict(printable(config))


def task_name(config: Mapping[str, Any]) -> str:
    """Return the name of the task and its background or noise. A different background or noise is a different task."""
    env = config["env"]
    if background := env.get("distractor"):
        return f"{env['task']} + {background['name']}"
    return f"{env['task']} + {env['noise']['name']} noise" if has_noise(config) else str(env["task"])


def has_noise(config: Mapping[str, Any]) -> bool:
    """Return whether noise is added to the states."""
    return bool(config["env"].get("noise"))


def has_bundled_clips(config: Mapping[str, Any]) -> bool:
    """Return whether a background of `evaluate_on` shows clips of installed packages instead of the user's videos."""
    others = [one for one in config.get("evaluate_on") or () if isinstance(one, dict)]
    return any(one.get("source") in ("video", "image") and one.get("videos") is None for one in others)


def method_name(config: Mapping[str, Any]) -> str:
    """Return the display name of the method and its learner."""
    return method_label(config["learner"]["name"], config["method"]["name"])


def setting_record(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything around the agent: environment, scale, budget and replay. Equal records are one setting."""
    env = {f"env.{key}": value for key, value in config["env"].items() if value is not None}
    return {
        "env.scene": "stock",  # Earlier runs do not have these two fields.
        "env.antialias": 1,
        **env,
        "scale": config["scale"],
        "decisions": config["decisions"],
        "replay.capacity": (config.get("replay") or {}).get("capacity"),
    }


def column_record(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return what distinguishes methods: learner, encoder, method and schedule. Equal records are one column.

    `identity` is that of the config, `tree_identity(config)`.
    """
    return {key: value for key, value in identity.items() if key not in _NOT_COLUMN}


def canonical(record: Any) -> str:
    """Return a string that is equal for equal records."""
    return json.dumps(record, sort_keys=True)


def _value(config: Mapping[str, Any], name: str) -> Any:
    """Return the value at a dotted name, or None."""
    value: Any = config
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
