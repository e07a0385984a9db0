"""The figures of docs/reliability.md: `python -m tests.reliability kills --json results/bench`, and three more."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from tests.reliability.kills import kills
from tests.reliability.mutations import measure_mutations
from tests.reliability.soak import soak
from tests.reliability.sweeps import sweeps

from pamd.errors import PamdError
from pamd.measure import measured_text, write_measured
from pamd.training.process import keep_freed_memory


def main(words: Sequence[str] | None = None) -> int:
    """Run one of them, print its table, and write it to `--json`. Return the exit code."""
    parser = argparse.ArgumentParser("python -m tests.reliability", description=__doc__)
    parser.add_argument("name", choices=("kills", "mutations", "soak", "sweeps"))
    parser.add_argument("--json", type=Path, metavar="DIR", help="directory of the results; storms continue")
    parser.add_argument("--most-runs", type=_positive, default=1_000_000, help="stop kills after this many runs")
    parser.add_argument("--minutes", type=_positive, default=40.0, help="stop a storm after this many minutes")
    parser.add_argument("--interruptions", type=_positive, default=1_000, help="stop a storm after this many")
    parser.add_argument("--decisions", type=int, default=20_000, help="budget of the run of soak")
    parser.add_argument("--backends", nargs="+", default=["local", "ray", "ray cluster"], help="backends of sweeps")
    parser.add_argument("--first", type=int, default=0, help="number of the first sweep; storms at a time need several")
    arguments = parser.parse_args(words)
    torch.set_num_threads(1)  # A pool of threads does not survive a fork.
    keep_freed_memory()
    try:
        if arguments.name == "kills":
            table = kills(arguments.json, arguments.most_runs, arguments.minutes, arguments.interruptions)
        elif arguments.name == "sweeps":
            table = sweeps(
                arguments.json, arguments.backends, arguments.minutes, arguments.interruptions, arguments.first
            )
        elif arguments.name == "mutations":
            table = measure_mutations()
        else:
            table = soak(arguments.json, arguments.decisions)
    except PamdError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(measured_text(table, threads=1) + "\n")
    if arguments.json is not None:
        write_measured(table, arguments.json / f"{arguments.name}.json", threads=1, repetitions=1)
    return 0


def _positive(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be positive, got {text}")
    return value


if __name__ == "__main__":
    sys.exit(main())
