"""Names that moved to `pamd.schema` and `pamd.settings`, and checks that are not yet types."""

from __future__ import annotations

from typing import Any

from pamd.errors import ConfigError, UnknownNameError
from pamd.schema import Part, build, differences, from_json, to_json, to_tree, tree_differences
from pamd.settings import apply_settings, override

__all__ = [
    "Part",
    "apply_settings",
    "build",
    "check_choice",
    "check_fraction",
    "check_positive",
    "check_whole",
    "differences",
    "from_json",
    "override",
    "to_json",
    "to_tree",
    "tree_differences",
]


def check_positive(what: str, **values: float | None) -> None:
    """Raise ConfigError unless every value is a finite number above zero or None."""
    for name, value in values.items():
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"{what}: {name} must be a finite number above 0, got {value!r}")


def check_fraction(what: str, name: str, value: float) -> None:
    """Raise ConfigError unless `value` is in (0, 1]."""
    if not 0 < value <= 1:
        raise ConfigError(f"{what}: {name} must lie in (0, 1], got {value!r}")


def check_whole(what: str, name: str, value: Any, minimum: int) -> None:
    """Raise ConfigError unless `value` is an integer of at least `minimum`."""
    # A bool is an int in Python, but it is never a valid value here.
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ConfigError(f"{what}: {name} must be a whole number of at least {minimum}, got {value!r}")


def check_choice(what: str, name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise ConfigError unless `value` is one of `choices`."""
    if value not in choices:
        raise UnknownNameError(f"{name} of {what}", value, choices)
