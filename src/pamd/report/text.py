"""Text from files, made safe to show: a run's names may hold anything that a disk or JSON can hold."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

__all__ = ["file_name", "parse_json", "printable"]

_DEEPEST = 32
"""Levels of nesting in a file of a run. Nothing that a run writes has half as many."""
_LONGEST = 120
"""Characters of a file name, its suffix not included."""


def parse_json(data: bytes) -> Any:
    """The JSON value in `data`; ValueError if it is not JSON or is nested too deeply."""
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check_depth(value)
    return value


def printable(value: Any) -> Any:
    """`value` with every character that cannot be shown, in strings and keys, as its escape sequence."""
    if isinstance(value, str):
        return value if value.isprintable() else "".join(map(_shown, value))
    if isinstance(value, dict):
        return {printable(key): printable(item) for key, item in value.items()}
    return [printable(item) for item in value] if isinstance(value, list) else value


def file_name(text: str) -> str:
    """`text` as the name of a file: itself where it is one, else without special characters and with a digest."""
    plain = re.sub(r"[^\w+.-]|\.\.|^[.-]", "-", text, flags=re.ASCII)[:_LONGEST]
    if plain == text and plain:
        return plain
    return f"{plain}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _shown(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def _check_depth(value: Any, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, depth + 1)
