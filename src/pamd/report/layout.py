"""Parse the config of a run. Configs of the first layout are converted to the current layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pamd.errors import RunError
from pamd.runs.files import printable
from pamd.runs.identity import LAYOUT, check_layout

__all__ = ["from_layout_1", "parse_config"]

_SHARED = {
    "seed": int, "decisions": int, "env": dict, "env.task": str, "method": dict, "method.name": str,
    "method.fidelity": str,
}  # fmt: skip
_KINDS: dict[object, dict[str, type]] = {
    1: {**_SHARED, "scale": dict, "scale.name": str},
    2: {**_SHARED, "learner": dict, "learner.name": str, "scale": str, "env.action_repeat": int},
    LAYOUT: {**_SHARED, "learner": dict, "learner.name": str, "scale": str, "env.action_repeat": int},
}
"""The fields that a report reads from a config of each layout, and their types."""
_OPTIONAL: dict[str, dict[str, type]] = {
    "replay": {"replay": dict},
    "env.distractor": {"env.distractor": dict, "env.distractor.name": str},
    "env.noise": {"env.noise": dict, "env.noise.name": str},
    "env.action_repeat": {"env.action_repeat": int},
    "method.sac": {"method.sac": dict},
}
"""Optional fields of a config and their types."""
_LARGEST = 2**53
"""The largest count that a floating-point number represents exactly."""
_LEAST = {"decisions": 1, "seed": 0, "env.action_repeat": 1}


def parse_config(config: Any, what: str) -> dict[str, Any]:
    """Parse a JSON tree as a config in the current layout with printable text. Raises RunError if it is not valid.

    `what` is the name of the file in error messages.
    """
    first = isinstance(config, dict) and config.get("layout", 1) == 1
    if not first:
        check_layout(config, what)
    layout = 1 if first else LAYOUT
    kinds = dict(_KINDS[layout])
    for name, optional in _OPTIONAL.items():
        if _value(config, name) is not None:
            kinds |= optional
    for name, kind in kinds.items():
        _check(name, _value(config, name), kind, what)
    config = printable(config)
    return from_layout_1(config) if layout == 1 else config


def _check(name: str, value: Any, kind: type[Any], what: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise RunError(f"{what} is not the config of a run: {name} must be {kind.__name__}, got {value!r}")
    if name in _LEAST and not _LEAST[name] <= value <= _LARGEST:
        raise RunError(
            f"{what} is not the config of a run: {name} must lie between {_LEAST[name]} and {_LARGEST}, got {value!r}"
        )


def from_layout_1(config: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a config of the first layout, which had no `layout` key, to the current layout.

    The first layout stored the learner and the schedule in the method and all sizes in the scale. It omitted options
    with default values and used null for the task's default action repeat.
    """
    method, scale = dict(config["method"]), dict(config["scale"])
    if method["name"] == "sac":
        method["name"] = "none"
    name = scale.pop("name")
    # The environment also stores these two.
    sizes = {key: value for key, value in scale.items() if key not in ("size", "frame_stack")}
    filters = {key: sizes.pop(key) for key in ("filters", "strides") if key in sizes}
    return {
        **config,
        "layout": LAYOUT,
        # The family only determined the default action repeat.
        "env": {key: value for key, value in config["env"].items() if key != "family"},
        "encoder": {"name": "conv", "options": filters},
        "learner": {"name": "sac", "options": {**(method.pop("sac", None) or {}), **sizes}},
        "schedule": method.pop("schedule", None),
        "isolate_metric": method.pop("isolate_metric", False),
        "method": method,
        "scale": name,
    }


def _value(config: Mapping[str, Any], name: str) -> Any:
    """Return the value at a dotted name, or None."""
    value: Any = config
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
