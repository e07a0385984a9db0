"""The reference of the command line, from the parsers that the commands use."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import warnings
from collections.abc import Callable
from typing import Any

import tyro

from pamd.cli.main import COMMANDS

__all__ = ["command_line"]

ENDING = re.compile(r"\s*\((?:default: (.*?)|(required))\)$", re.DOTALL)
"""How tyro ends the help of an option."""


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
    described = (inspect.getdoc(function) or "").split("\nArgs:")[0].strip()
    with warnings.catch_warnings():
        # tyro deprecates this function and offers nothing else that lists the options.
        warnings.simplefilter("ignore", DeprecationWarning)
        parser = tyro.extras.get_parser(function, config=(tyro.conf.FlagCreatePairsOff,))
    rows = [_row(action) for action in parser._actions if "--help" not in action.option_strings]
    return [described, "", "| option | default | meaning |", "|---|---|---|", *rows] if rows else [described]


def _row(action: argparse.Action) -> str:
    text = str(action.help or "").strip()
    ending = ENDING.search(text)
    default = (ending[1] or ending[2] or "") if ending else ""
    shown = default if default in ("", "required") else f"`{_cell(default)}`"
    meaning = text[: ending.start()] if ending else text
    return f"| `{_cell(_name(action))}` | {shown.replace('`None`', '')} | {_cell(meaning)} |"


def _name(action: argparse.Action) -> str:
    """`--render {standard,fast}`, or the upper-case name of a positional argument."""
    if not action.option_strings:
        return action.dest.upper()
    values = action.metavar if isinstance(action.metavar, str) and action.nargs != 0 else ""
    return f"{action.option_strings[0]} {values.replace('{None}|', '').replace('{None,', '{')}".strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
