"""`python -m studies.verdicts COMMAND`: train the missing runs, collect them in Parquet files, write the tables.

run     train the runs of rungs that the study does not have yet; rerun the same command to continue
pack    add finished runs to runs.parquet, and exact fits to exact.parquet
tables  write tables/ and figures/ from the Parquet files, and print the tables
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pamd.cli.console import Steps, print_text
from pamd.cli.sweep import Execution
from pamd.errors import UnknownNameError
from studies.commands import add_finished, run_command, train_missing
from studies.verdicts import analysis
from studies.verdicts.plan import DEFAULT_RUNGS, EXACT, EXACT_DISTANCES, EXPERIMENTS, RUNGS

_SEEDS, _STEPS, _DIMENSION = 10, 400, 8
"""The size of the exact rung."""


def run(
    rung: tuple[str, ...] = DEFAULT_RUNGS,
    scale: str = "cpu",
    seeds: tuple[int, ...] = (),
    runs: Path = Path("runs"),
    plan: bool = False,
    execution: Execution = Execution(),  # noqa: B008
) -> int:
    """Train the runs of rungs that runs.parquet does not have. Rerun the same command to continue.

    Args:
        rung: exact, toy, states, pixels, paper
        scale: cpu, or smoke, which only checks that everything runs
        seeds: seeds to run (default: those of the plan)
        runs: parent directory of the runs
        plan: only print the runs and a forecast of time, memory and disk
    """
    for name in rung:
        if name not in RUNGS:
            raise UnknownNameError("rung", name, RUNGS)
    codes = [0]
    if EXACT in rung:
        cost = f"{len(EXACT_DISTANCES)} distances, 4 metrics, {_SEEDS} seeds: about ten minutes on one core"
        print_text(f"exact: {cost}")
        if not plan:
            _fit(runs / EXACT, *((2, 5) if scale == "smoke" else (_SEEDS, _STEPS)))
    for name in (name for name in rung if name != EXACT):
        experiment = EXPERIMENTS[name]
        print_text(f"{experiment.title}. It shows {experiment.shows}.")
        codes.append(train_missing(experiment.runs(scale, seeds=seeds), analysis.RUNS, runs, execution, plan=plan))
    return max(codes)


def pack(runs: Path = Path("runs")) -> None:
    """Add the runs in a directory to runs.parquet, and its exact fits to exact.parquet.

    Args:
        runs: parent directory of the runs
    """
    if (runs / EXACT).is_dir():
        import pyarrow
        from pyarrow import parquet

        fits = pyarrow.Table.from_pylist([dataclasses.asdict(fit) for fit in _fit(runs / EXACT, _SEEDS, _STEPS, True)])
        parquet.write_table(fits, analysis.EXACT_FITS, compression="zstd", compression_level=19)
    add_finished(runs, analysis.RUNS)


def tables(out: Path = analysis.HERE) -> None:
    """Write the tables and figures of the study, and print the tables that decide the claims.

    Args:
        out: directory of tables/ and figures/
    """
    for table in analysis.write(out):
        print_text("\n".join(["", table.title, table.text(), *table.notes]))


def _fit(out: Path, seeds: int, steps: int, stored_only: bool = False) -> Sequence[Any]:
    """Fit exact metrics with every distance. Finished fits are kept in `out`."""
    import torch

    from pamd import diagnostics

    torch.set_num_threads(1)  # The fits are small: a second thread makes them slower.
    with Steps() as progress:
        return diagnostics.exact(
            distances=EXACT_DISTANCES,
            dimensions=(_DIMENSION,),
            seeds=seeds,
            steps=steps,
            out=out,
            progress=progress,
            interrupted=stored_only,
        ).cells


COMMANDS: dict[str, Callable[..., Any]] = {"run": run, "pack": pack, "tables": tables}


def main(words: Sequence[str]) -> int:
    """Run a command of the study and return the exit code."""
    return run_command("verdicts", str(__doc__), COMMANDS, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
