"""Pieces of HTML that more than one section of the page uses."""

from __future__ import annotations

import base64
import html

from pamd.report.figure import PNG_DPI
from pamd.report.run import Run
from pamd.report.text import file_name, printable

__all__ = ["anchor", "escaped", "figure", "inline", "note"]

_SCREEN_DPI = 96
_TYPES = {".svg": "image/svg+xml", ".png": "image/png", ".mp4": "video/mp4"}


def escaped(text: str) -> str:
    """`text` for the page: printable, except for its line breaks, and without markup."""
    return html.escape("\n".join(str(printable(line)) for line in text.split("\n")))


def note(text: str) -> str:
    """A remark in small print."""
    return f"<p class=note>{escaped(text)}</p>"


def anchor(run: Run) -> str:
    """The id of a run's entry on the page, with its config and its command."""
    return f"run-{file_name(run.path.resolve().name)}"


def inline(suffix: str, data: bytes) -> str:
    """An address that holds the file itself."""
    return f"data:{_TYPES[suffix]};base64,{base64.b64encode(data).decode()}"


def figure(suffix: str, data: bytes, caption: str) -> str:
    """A figure with the image embedded. An image that does not follow the reader's colors gets a white card."""
    kind = "" if b"prefers-color-scheme" in data else " class=card"
    if suffix == ".png" and data[12:16] == b"IHDR":
        kind += f" width={round(int.from_bytes(data[16:20], 'big') * _SCREEN_DPI / PNG_DPI)}"
    text = escaped(caption)
    return f'<figure><img{kind} alt="{text}" src="{inline(suffix, data)}"><figcaption>{text}</figcaption></figure>'
