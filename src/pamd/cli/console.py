"""Where commands print."""

from __future__ import annotations

from rich.console import Console

__all__ = ["wide_console"]

_WIDTH = 200


def wide_console(*, stderr: bool = False) -> Console:
    """A console that folds nothing to eighty columns where there is no terminal: a log has no width."""
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=_WIDTH)
