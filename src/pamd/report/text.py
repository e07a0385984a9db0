"""File names from text. Names of methods and tasks may contain any character that JSON allows."""

from __future__ import annotations

import hashlib
import re

__all__ = ["file_name"]

_LONGEST = 120
"""The maximum length of a file name without suffix."""


def file_name(text: str) -> str:
    """Return `text` if it is a valid file name; otherwise replace special characters, shorten, and append a digest."""
    plain = re.sub(r"[^\w+.-]|\.\.|^[.-]", "-", text, flags=re.ASCII)[:_LONGEST]
    if plain == text and plain:
        return plain
    return f"{plain}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
