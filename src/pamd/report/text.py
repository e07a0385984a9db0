"""Make text from files safe to display. Names may contain any character that a file system or JSON allows."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

__all__ = ["file_name", "parse_json", "printable"]

_DEEPEST = 32
"""The maximum nesting depth in a file of a run. It is more than twice the depth that a run writes."""
_LONGEST = 120
"""The maximum length of a file name without suffix."""


def parse_json(data: bytes) -> Any:
    """Parse JSON. Raises ValueError if it is invalid or nested too deeply."""
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check_depth(value)
    return value


def printable(value: Any) -> Any:
    """Replace unprintable characters in strings and keys with escape sequences."""
    if isinstance(value, str):
        return value if value.isprintable() else "".join(map(_shown, value))
    if isinstance(value, dict):
        return {printable(key): printable(item) for key, item in value.items()}
    return [printable(item) for item in value] if isinstance(value, list) else value


def file_name(text: str) -> str:
    """Return `text` if it is a valid file name; otherwise replace special characters, shorten, and append a digest."""
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
