"""HTML elements shared by the sections of the page, and names of files from any text."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from pathlib import Path

from pamd.report.figures import PNG_DPI
from pamd.report.run import Run
from pamd.runs.files import printable

_MAX_LENGTH = 120
"""The maximum length of a file name without suffix."""
_SCREEN_DPI = 96
_TYPES = {".svg": "image/svg+xml", ".png": "image/png", ".mp4": "video/mp4"}


def file_name(text: str) -> str:
    """Return `text` if it is a valid file name; otherwise replace special characters, shorten, and append a digest."""
    plain = re.sub(r"[^\w+.-]|\.\.|^[.-]", "-", text, flags=re.ASCII)[:_MAX_LENGTH]
    if plain == text and plain:
        return plain
    return f"{plain}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def escaped(text: str) -> str:
    """Escape `text` for HTML, with unprintable characters replaced and line breaks kept."""
    return html.escape("\n".join(str(printable(line)) for line in text.split("\n")))


def note(text: str) -> str:
    """Return a note in small print."""
    return f"<p class=note>{escaped(text)}</p>"


def anchor(run: Run) -> str:
    """Return the HTML id of a run's entry, which shows its config and command."""
    return f"run-{file_name(run.directory)}"


def config_file(run: Run) -> str:
    """Return the path of the copy of a run's config, relative to the page."""
    return f"configs/{file_name(run.directory)}.json"


def inline(suffix: str, data: bytes) -> str:
    """Return a data URL with the content of a file."""
    return f"data:{_TYPES[suffix]};base64,{base64.b64encode(data).decode()}"


def figure(suffix: str, data: bytes, caption: str) -> str:
    """Return a figure with an embedded image. Images without a dark variant get a white background."""
    kind = "" if b"prefers-color-scheme" in data else " class=card"
    if suffix == ".png" and data[12:16] == b"IHDR":
        kind += f" width={round(int.from_bytes(data[16:20], 'big') * _SCREEN_DPI / PNG_DPI)}"
    text = escaped(caption)
    return f'<figure><img{kind} alt="{text}" src="{inline(suffix, data)}"><figcaption>{text}</figcaption></figure>'


def picture(path: Path, caption: str) -> str:
    """Return a figure with the image in the file `path`."""
    return figure(path.suffix, path.read_bytes(), caption)
