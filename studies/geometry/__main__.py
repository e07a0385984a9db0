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
from pamd.cli.pack import pack as pack_runs
from pamd.cli.sweep import Execution, plan_jobs, print_plan, print_summary, run_jobs
from pamd.errors import ConfigError, UnknownNameError
from pamd.runs.campaigns import campaign_runs
from pamd.training.config import run_name
from studies.commands import run_command
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
    known = {path.name for path in campaign_runs(_DATA)} if _DATA.exists() else set()
    missing = [one for one in runs(stage) if run_name(one.config) not in known]
    print_text(f"stage {stage}: {len(missing)} runs are missing")
    if not missing:
        return 0
    planned, forecast = plan_jobs(missing, runs_in, execution)
    print_plan(planned, forecast)
    return 0 if plan else print_summary(run_jobs(planned, execution, forecast))


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
    pack_runs([*([_DATA] if _DATA.exists() else []), runs_in], out=_DATA)


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
