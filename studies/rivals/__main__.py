"""`python -m studies.rivals COMMAND`: train PAMD and the rivals without a distance.

run   train the runs that runs.parquet does not have yet; rerun the same command to continue
pack  add finished runs to runs.parquet
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pamd.cli.sweep import Execution
from studies.commands import add_finished, run_command, train_missing
from studies.rivals.plan import HERE, runs

_DATA = HERE / "runs.parquet"


def run(
    runs_in: Path = Path("runs"),
    plan: bool = False,
    execution: Execution = Execution(),  # noqa: B008
) -> int:
    """Train the runs that runs.parquet does not have. Rerun the same command to continue.

    Args:
        runs_in: parent directory of the runs
        plan: only print the runs and a forecast of time, memory and disk
    """
    return train_missing(runs(), _DATA, runs_in, execution, plan=plan)


def pack(runs_in: Path = Path("runs")) -> None:
    """Add the finished runs in a directory to runs.parquet.

    Args:
        runs_in: parent directory of the runs
    """
    add_finished(runs_in, _DATA)


COMMANDS: dict[str, Callable[..., Any]] = {"run": run, "pack": pack}


def main(words: Sequence[str]) -> int:
    """Run a command of the study and return the exit code."""
    return run_command("rivals", str(__doc__), COMMANDS, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
