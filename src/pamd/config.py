"""Frozen dataclasses to and from JSON, strictly: an unknown key or a wrong type is an error."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from pamd.errors import ConfigError, UnknownNameError

__all__ = ["build", "check_choice", "check_positive", "check_whole", "from_json", "to_json"]

C = TypeVar("C")


def build(cls: type[C], options: Mapping[str, Any], what: str) -> C:
    """A `cls` from keyword `options`; `what` names the thing in errors ("distance 'pamd'")."""
    try:
        text = json.dumps(options)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"options of {what} must be plain data (numbers, strings, lists): {error}") from None
    return from_json(cls, text, what)


def from_json(cls: type[C], text: str, what: str) -> C:
    """A `cls` from a JSON object."""
    import pydantic  # Imported here: the distances themselves do not need it.

    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{what} is not valid JSON: {error}") from None
    _reject_unknown_keys(cls, data, what)
    try:
        return pydantic.TypeAdapter(cls).validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "(top level)"
        raise ConfigError(f"{what}: option {where!r} is {first['input']!r}: {first['msg']}") from None


def to_json(config: Any) -> str:
    """The JSON text of a frozen dataclass; keys sorted, so equal configs give equal text."""
    return json.dumps(dataclasses.asdict(config), indent=2, sort_keys=True)


def check_positive(what: str, **values: float | None) -> None:
    """Raise ConfigError unless every given value is a finite number above zero (None is passed over)."""
    for name, value in values.items():
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"{what}: {name} must be a finite number above 0, got {value!r}")


def check_whole(what: str, name: str, value: Any, minimum: int) -> None:
    """Raise ConfigError unless `value` is a whole number of at least `minimum`."""
    # True is an int to Python; it is never meant as one here.
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ConfigError(f"{what}: {name} must be a whole number of at least {minimum}, got {value!r}")


def check_choice(what: str, name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise ConfigError unless `value` is one of `choices`."""
    if value not in choices:
        raise UnknownNameError(f"{name} of {what}", value, choices)


def _reject_unknown_keys(cls: Any, data: Any, what: str) -> None:
    """Walk the types beside the data: pydantic itself passes over unknown keys of plain dataclasses."""
    if isinstance(data, list):
        for item in data:
            for part in typing.get_args(cls):
                _reject_unknown_keys(part, item, what)
        return
    if not isinstance(data, dict):
        return
    if not dataclasses.is_dataclass(cls):
        # `Inner | None`, or a mapping of Inner; a key of the mapping itself is not for us to judge.
        mapping = typing.get_origin(cls) in (dict, Mapping)
        for part in typing.get_args(cls):
            for item in data.values() if mapping else (data,):
                _reject_unknown_keys(part, item, what)
        return
    hints = typing.get_type_hints(cls)
    names = {field.name for field in dataclasses.fields(cls)}
    for key, value in data.items():
        if key not in names:
            raise UnknownNameError(f"option of {what}", key, names)
        _reject_unknown_keys(hints[key], value, f"{what}: {key}")
