"""The command line of a study: `python -m studies.NAME COMMAND`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pamd.cli.console import print_text
from pamd.cli.parser import bind
from pamd.errors import PamdError, UnknownNameError


def run_command(study: str, text: str, commands: Mapping[str, Callable[..., Any]], words: Sequence[str]) -> int:
    """Run a command of a study and return the exit code. `text` is the study's help."""
    if not words or words[0] in ("-h", "--help"):
        print_text(text)
        return 0 if words else 2
    try:
        if words[0] not in commands:
            raise UnknownNameError("command", words[0], commands)
        code = bind(f"python -m studies.{study} {words[0]}", commands[words[0]], list(words[1:]))()
    except PamdError as error:
        print_text(f"studies.{study}: {error}")
        return 2
    return code if isinstance(code, int) else 0
