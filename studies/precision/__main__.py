"""`python -m studies.precision COMMAND`: is bfloat16 as good as float32?

run      train the paired runs that runs.parquet does not have yet; rerun the same command to continue
pack     add finished runs to runs.parquet
updates  make updates at the paper's scale in both precisions; rerun the same command to continue
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pamd.cli.console import print_text
from pamd.cli.sweep import Execution
from studies.commands import add_finished, run_command, train_missing
from studies.precision.analysis import RUNS
from studies.precision.plan import DECISIONS, SEEDS, runs
from studies.precision.updates import measure


def run(
    runs_in: Path = Path("runs"),
    decisions: int = DECISIONS,
    seeds: int = len(SEEDS),
    plan: bool = False,
    execution: Execution = Execution(),  # noqa: B008
) -> int:
    """Train the paired runs that runs.parquet does not have. Rerun the same command to continue.

    Args:
        runs_in: parent directory of the runs
        decisions: budget of a run; less than the default is a pilot
        seeds: number of seeds; less than the default is a pilot
        plan: only print the runs and a forecast of time, memory and disk
    """
    return train_missing(runs(decisions, seeds), RUNS, runs_in, execution, plan=plan)


def pack(runs_in: Path = Path("runs")) -> None:
    """Add the finished runs in a directory to runs.parquet.

    Args:
        runs_in: parent directory of the runs
    """
    add_finished(runs_in, RUNS)


def updates(count: int = 2_000, runs_in: Path = Path("runs")) -> None:
    """Make updates at the paper's scale in both precisions, on one thread, and add rows to updates.csv.

    Args:
        count: number of updates, with those that are already made
        runs_in: parent directory of the saved state
    """
    for line in measure(count, runs_in):
        print_text(line)


COMMANDS: dict[str, Callable[..., Any]] = {"run": run, "pack": pack, "updates": updates}


def main(words: Sequence[str]) -> int:
    """Run a command of the study and return the exit code."""
    return run_command("precision", str(__doc__), COMMANDS, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
