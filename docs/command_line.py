"""The reference of the command line, from the signatures that the commands read their options from."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from pamd.cli.main import COMMANDS
from pamd.cli.signature import Option, description, options

__all__ = ["command_line"]


def command_line() -> str:
    """The whole page."""
    lines = ["# Command line", "", "`make docs` writes this page from the commands. `pamd COMMAND --help` prints"]
    lines += ["the same text.", "", "| command | what it does |", "|---|---|"]
    lines += [f"| [`pamd {name}`](#pamd-{name}) | {_cell(what)} |" for name, (_, _, what) in COMMANDS.items()]
    lines += [
        "",
        "Exit codes: 0 success, 1 a check or a run failed, 2 wrong input, 70 an unexpected error, 130 interrupted.",
    ]
    for command, (module, name, _) in COMMANDS.items():
        function = getattr(importlib.import_module(module), name)
        lines += ["", f"## pamd {command}"]
        if isinstance(function, dict):
            for sub, one in function.items():
                lines += ["", f"### pamd {command} {sub}", "", *_command(one)]
        else:
            lines += ["", *_command(function)]
    return "\n".join(lines) + "\n"


def _command(function: Callable[..., Any]) -> list[str]:
    rows = [_row(option) for option in options(function)]
    table = ["", "| option | default | meaning |", "|---|---|---|", *rows] if rows else []
    return [description(function), *table]


def _row(option: Option) -> str:
    default = "required" if option.required else option.shown_default and f"`{_cell(option.shown_default)}`"
    return f"| `{_cell(_name(option))}` | {default} | {_cell(option.meaning)} |"


def _name(option: Option) -> str:
    """`--render standard|fast`, or the upper-case name of a positional argument."""
    if option.positional or option.kind is bool:
        return option.label
    return f"{option.flag} {option.metavar}{' ...' if option.count == '*' else ''}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
