"""The consoles that commands print to."""

from __future__ import annotations

from rich.console import Console

__all__ = ["print_text"]


def print_text(text: str, *, stderr: bool = True) -> None:
    """Print `text` unchanged: no markup, no colors, no wrapping."""
    Console(stderr=stderr, highlight=False).print(text, soft_wrap=True, markup=False)
