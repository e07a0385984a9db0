"""`python -m studies.geometry COMMAND`: train the missing runs of a stage, choose the weights, collect the runs.

run        train the runs of a stage that runs.parquet does not have yet; rerun the same command to continue
choose     write weights.json from the runs of the stage `search`
pack       add finished runs to runs.parquet
mechanism  train runs of PAMD step by step and measure their matrices; rerun the same command to continue
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pamd.cli.console import print_text
from pamd.cli.sweep import Execution
from pamd.errors import ConfigError, UnknownNameError
from studies.commands import add_finished, run_command, train_missing
from studies.geometry import mechanism as steps
from studies.geometry.plan import HERE, STAGES, WEIGHTS, runs
from studies.geometry.search import choose_weights

_DATA = HERE / "runs.parquet"


def run(
    stage: str = "search",
    runs_in: Path = Path("runs"),
    plan: bool = False,
    execution: Execution = Execution(),  # noqa: B008
) -> int:
    """Train the runs of a stage that runs.parquet does not have. Rerun the same command to continue.

    Args:
        stage: search, primary, exploration or pixels
        runs_in: parent directory of the runs
        plan: only print the runs and a forecast of time, memory and disk
    """
    if stage not in STAGES:
        raise UnknownNameError("stage", stage, STAGES)
    if stage != "search" and not WEIGHTS.exists():
        raise ConfigError(f"stage {stage} requires weights.json; run the stages search and choose first")
    return train_missing(runs(stage), _DATA, runs_in, execution, plan=plan)


def choose(runs_in: Path = Path("runs")) -> None:
    """Write weights.json from the runs of the stage `search`.

    Args:
        runs_in: parent directory of the runs
    """
    sources = [path for path in (_DATA, runs_in) if path.exists()]
    weights = choose_weights(sources)
    WEIGHTS.write_text(json.dumps(weights, indent=2) + "\n")
    for comparator, weight in weights.items():
        print_text(f"{comparator}: {weight:g}")


def pack(runs_in: Path = Path("runs")) -> None:
    """Add the finished runs in a directory to runs.parquet.

    Args:
        runs_in: parent directory of the runs
    """
    add_finished(runs_in, _DATA)


def mechanism(runs_in: Path = Path("runs"), seeds: int = 2) -> None:
    """Train runs of PAMD step by step and add their measurements to mechanism.csv.

    Args:
        runs_in: parent directory of the runs
        seeds: number of seeds
    """
    for line in steps.measure(runs_in, seeds):
        print_text(line)


COMMANDS: dict[str, Callable[..., Any]] = {"run": run, "choose": choose, "pack": pack, "mechanism": mechanism}


def main(words: Sequence[str]) -> int:
    """Run a command of the study and return the exit code."""
    return run_command("geometry", str(__doc__), COMMANDS, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
