"""The reference of the command line, from the signatures that the commands read their options from."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pamd.cli.main import COMMANDS
from pamd.cli.parser import grouped
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
        commands = importlib.import_module(module)
        function, groups = getattr(commands, name), getattr(commands, "GROUPS", {}).get(name)
        lines += ["", f"## pamd {command}"]
        if isinstance(function, dict):
            for sub, one in function.items():
                lines += ["", f"### pamd {command} {sub}", "", *_command(one)]
        else:
            lines += ["", *_command(function, groups)]
    return "\n".join(lines) + "\n"


def _command(function: Callable[..., Any], groups: Mapping[str, Sequence[str]] | None = None) -> list[str]:
    """The description, and one table for each group of options."""
    lines = [description(function)]
    for title, found in grouped(options(function, groups), groups).items():
        lines += ["", f"**{title.capitalize()}**", "", "| option | default | meaning |", "|---|---|---|"]
        lines += [_row(option) for option in found]
    return lines


def _row(option: Option) -> str:
    meaning, default = option.help, "off" if option.kind is bool else option.shown_default
    if stated := re.fullmatch(r"(.*) \(default: (.*)\)", meaning):  # a default that is a phrase, not a value
        meaning, default = stated[1], stated[2]
    elif default and option.kind is not bool:
        default = f"`{default}`"
    return f"| `{_cell(_name(option))}` | {'required' if option.required else _cell(default)} | {_cell(meaning)} |"


def _name(option: Option) -> str:
    """`--render standard|fast`, or the upper-case name of a positional argument."""
    if option.positional or option.kind is bool:
        return option.label
    return f"{option.flag} {option.metavar}{' ...' if option.count == '*' else ''}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
