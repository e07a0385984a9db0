"""Command dispatch. Heavy packages are imported only when a command needs them."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pamd.cli.parser import bind, description, parser
from pamd.errors import ConfigError, PamdError, RunInterrupted, TaskFailedError, UnknownNameError, install_command
from pamd.version import __version__

_FIRST = (
    ("pamd train cartpole_swingup --scale cpu", "train an agent from pixels into runs/"),
    ("pamd eval runs/RUN", "evaluate it and record a video"),
    ("pamd report runs", "write a page that compares all runs"),
)
"""The commands for a first session."""

_UNEXPECTED = 70
"""The exit code: EX_SOFTWARE of sysexits.h."""

COMMANDS = {
    "train": ("pamd.cli.train", "train", "train an agent"),
    "resume": ("pamd.cli.train", "resume", "continue an interrupted run, or extend a finished one"),
    "eval": ("pamd.cli.train", "evaluate", "evaluate a run's newest checkpoint and record a video"),
    "report": ("pamd.cli.report", "report", "write an HTML report on runs, with the paper's numbers"),
    "pack": ("pamd.cli.pack", "pack", "write runs to one Parquet file, which reports read like a directory"),
    "sweep": ("pamd.cli.sweep", "sweep", "train tasks x methods x seeds on this machine, Ray or Slurm"),
    "reproduce": ("pamd.cli.reproduce", "reproduce", "run an experiment of the paper and build its table or figure"),
    "diagnose": ("pamd.cli.diagnose", "diagnose", "test whether the distance shapes the encoder"),
    "list": ("pamd.cli.list", "show", "list methods, tasks, distances, experiments and more"),
    "envs": ("pamd.cli.envs", "envs", "preview a task: an image and a video of the observations"),
    "export": ("pamd.cli.export", "export", "export a trained agent: weights, config, model card"),
    "verify": ("pamd.cli.verify", "verify", "check all files of runs for damage"),
    "bench": ("pamd.cli.bench", "bench", "measure decisions per second and memory on this machine"),
    "doctor": ("pamd.cli.doctor", "doctor", "check this installation and suggest fixes"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the `pamd` command and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        sys.stdout.write(_help())
        return 0 if words else 2
    if words[0] == "--version":
        sys.stdout.write(f"pamd {__version__}\n")
        return 0
    try:
        with _visible_deprecations():
            return _dispatch(words[0], words[1:])
    except RunInterrupted as stopped:
        with contextlib.suppress(OSError):  # The terminal may be lost.
            sys.stderr.write(f"{stopped}\n")
        return 130
    except TaskFailedError as error:  # The command was right, and so was pamd.
        sys.stderr.write(f"pamd: {error}\n")
        return 1
    except PamdError as error:
        sys.stderr.write(f"pamd: {error}\n")
        return 2
    except OSError as error:  # A file or directory that cannot be read or written.
        sys.stderr.write(f"pamd: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        sys.stderr.write(f"pamd: {_unexpected(error)}\n")
        return _UNEXPECTED


@contextlib.contextmanager
def _visible_deprecations() -> Iterator[None]:
    """Print each of our own deprecation warnings once. Python hides them by default."""
    with warnings.catch_warnings():
        warnings.filterwarnings("once", category=DeprecationWarning, module=r"pamd\b")
        show = warnings.showwarning

        def print_ours(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if category is DeprecationWarning:
                sys.stderr.write(f"pamd: {message}\n")
            else:
                show(message, category, *rest)

        warnings.showwarning = print_ours  # type: ignore[assignment]
        yield


def _dispatch(command: str, words: list[str]) -> int:
    if command not in COMMANDS:
        raise UnknownNameError("command", command, COMMANDS)
    location, name, _ = COMMANDS[command]
    try:
        module = importlib.import_module(location)
    except ModuleNotFoundError as error:
        raise PamdError(f"the command line requires more packages ({error}): {install_command('lab')}") from None
    function, prog = getattr(module, name), f"pamd {command}"
    if isinstance(function, dict):  # a command with subcommands
        if not words or words[0] in ("-h", "--help"):
            sys.stdout.write(_subcommand_help(prog, function))
            return 0 if words else 2
        if words[0] not in function:
            raise UnknownNameError(f"{command} command", words[0], function)
        function, prog, words = function[words[0]], f"{prog} {words[0]}", words[1:]
    if words and words[0] in (moved := getattr(module, "MOVED", {})):  # Before its options are read: they moved, too.
        raise ConfigError(f"{command} {words[0]} has moved: use {moved[words[0]]}")
    groups = getattr(module, "GROUPS", {}).get(name)
    if "-h" in words or "--help" in words:
        sys.stdout.write(parser(prog, function, groups).format_help())
        return 0
    code = bind(prog, function, words, groups)()
    return code if isinstance(code, int) else 0


def _help() -> str:
    lines = ["usage: pamd COMMAND [options]", "", "start here:"]
    lines += [f"  {command:<40} {meaning}" for command, meaning in _FIRST]
    lines += ["", "all commands:"]
    lines += [f"  {command:<9} {meaning}" for command, (_, _, meaning) in COMMANDS.items()]
    lines += ["", "`pamd COMMAND --help` shows the options of a command.", ""]
    return "\n".join(lines)


def _subcommand_help(prog: str, functions: Mapping[str, Callable[..., Any]]) -> str:
    lines = [f"usage: {prog} COMMAND [options]", "", "commands:"]
    lines += [f"  {name:<9} {description(function).splitlines()[0]}" for name, function in functions.items()]
    lines += ["", f"`{prog} COMMAND --help` shows the options of a command.", ""]
    return "\n".join(lines)


def _unexpected(error: BaseException) -> str:
    """Describe an unexpected error in one line, and write its traceback to a new file that the line names."""
    first = next(iter(str(error).splitlines()), "")
    line = f"unexpected {type(error).__name__}: {first}" if first else f"unexpected {type(error).__name__}"
    report = f"pamd {__version__}\n" + "".join(traceback.format_exception(error))
    # Only the owner can read the file, because a traceback may contain values.
    for directory in (None, os.curdir):
        with contextlib.suppress(OSError):
            handle, path = tempfile.mkstemp(prefix="pamd-", suffix=".traceback.txt", dir=directory)
            with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(report)
            return f"{line}. This is a bug in pamd; the traceback is in {os.path.abspath(path)}"
    return f"{line}. This is a bug in pamd; the traceback could not be written to a file"
