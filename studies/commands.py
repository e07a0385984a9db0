"""The command line of a study: `python -m studies.NAME COMMAND`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pamd.cli.console import print_text
from pamd.cli.pack import pack
from pamd.cli.parser import bind, parser
from pamd.cli.sweep import Execution, plan_jobs, print_plan, print_summary, run_jobs
from pamd.errors import PamdError, UnknownNameError
from pamd.experiments import Labeled
from pamd.report.run import load_runs
from pamd.runs.campaigns import campaign_runs
from pamd.training.config import run_name

__all__ = ["add_finished", "run_command", "train_missing"]


def run_command(study: str, text: str, commands: Mapping[str, Callable[..., Any]], words: Sequence[str]) -> int:
    """Run a command of a study and return the exit code. `text` is the study's help."""
    if not words or words[0] in ("-h", "--help"):
        print_text(text)
        return 0 if words else 2
    try:
        if words[0] not in commands:
            raise UnknownNameError("command", words[0], commands)
        prog, function, options = f"python -m studies.{study} {words[0]}", commands[words[0]], list(words[1:])
        if "-h" in options or "--help" in options:
            sys.stdout.write(parser(prog, function).format_help())
            return 0
        code = bind(prog, function, options)()
    except PamdError as error:
        print_text(f"studies.{study}: {error}")
        return 2
    return code if isinstance(code, int) else 0


def train_missing(runs: Sequence[Labeled], data: Path, runs_in: Path, execution: Execution, *, plan: bool) -> int:
    """Train the runs that the Parquet file `data` does not have, or only print them, and return the exit code."""
    missing = [run for run in runs if run_name(run.config) not in _names(data)]
    print_text(f"{len(missing)} of {len(runs)} runs are missing")
    if not missing:
        return 0
    planned, forecast = plan_jobs(missing, runs_in, execution)
    print_plan(planned, forecast)
    return 0 if plan else print_summary(run_jobs(planned, execution, forecast))


def add_finished(runs_in: Path, data: Path) -> None:
    """Add the finished runs in a directory to the Parquet file `data`. An unfinished one would count as trained."""
    runs = [run.path for run in load_runs([runs_in]) if run.finished and run.path.name not in _names(data)]
    pack([*([data] if data.exists() else []), *runs], out=data)


def _names(data: Path) -> set[str]:
    return {path.name for path in campaign_runs(data)} if data.exists() else set()
