"""Dispatch: heavy imports wait until a command needs them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from pamd.cli.unexpected import UNEXPECTED, unexpected
from pamd.errors import PamdError, RunInterrupted, UnknownNameError

__all__ = ["main"]

COMMANDS = {
    "train": ("pamd.cli.train", "train", "train an agent"),
    "resume": ("pamd.cli.train", "resume", "continue an interrupted run, or extend a finished one"),
    "eval": ("pamd.cli.train", "evaluate", "evaluate a run's newest checkpoint and record a video"),
    "verify": ("pamd.cli.verify", "verify", "check every file of runs; --repair does what is safe"),
    "export": ("pamd.cli.export", "export", "write a trained agent for others: weights, config, model card"),
    "report": ("pamd.cli.report", "report", "an HTML page about runs, beside the paper's numbers"),
    "sweep": ("pamd.cli.sweep", "sweep", "tasks x methods x seeds, on this machine, Ray or Slurm"),
    "reproduce": ("pamd.cli.reproduce", "reproduce", "run and build a table or figure of the paper"),
    "list": (
        "pamd.cli.list",
        "show",
        "methods, distances, tasks, experiments and more; --diff A B",
    ),
    "bench": ("pamd.cli.bench", "bench", "benchmark against a reference implementation"),
    "envs": ("pamd.cli.envs", "envs", "preview TASK: a picture and a video of what the agent sees"),
    "diagnose": (
        "pamd.cli.diagnose",
        "diagnose",
        "residual | geometry | latents | exact: does the distance shape the encoder?",
    ),
    "doctor": ("pamd.cli.doctor", "doctor", "check this installation and suggest fixes"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The `pamd` command; the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        sys.stdout.write(_help())
        return 0 if words else 2
    if words[0] == "--version":
        from pamd.version import __version__

        sys.stdout.write(f"pamd {__version__}\n")
        return 0
    try:
        return _dispatch(words[0], words[1:])
    except RunInterrupted as stopped:
        sys.stderr.write(f"{stopped}\n")
        return 130
    except PamdError as error:
        sys.stderr.write(f"pamd: {error}\n")
        return 2
    except OSError as error:  # a file or directory that cannot be read or written, wherever it was met
        sys.stderr.write(f"pamd: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        sys.stderr.write(f"pamd: {unexpected(error)}\n")
        return UNEXPECTED


def _dispatch(command: str, words: list[str]) -> int:
    if command not in COMMANDS:
        raise UnknownNameError("command", command, COMMANDS)
    module, name, _ = COMMANDS[command]
    try:
        import tyro
    except ImportError:
        raise PamdError("the command line needs more than the plug-in: pip install 'pamd[lab]'") from None
    function = getattr(importlib.import_module(module), name)
    if isinstance(function, dict):  # commands of its own
        code = tyro.extras.subcommand_cli_from_dict(function, args=words, prog=f"pamd {command}")
    else:
        code = tyro.cli(function, args=words, prog=f"pamd {command}", config=(tyro.conf.FlagCreatePairsOff,))
    return code if isinstance(code, int) else 0


def _help() -> str:
    lines = ["usage: pamd COMMAND [options]", ""]
    lines += [f"  {command:<9} {what}" for command, (_, _, what) in COMMANDS.items()]
    lines += ["", "pamd COMMAND --help shows a command's options.", ""]
    return "\n".join(lines)
