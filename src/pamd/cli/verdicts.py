"""`pamd reproduce verdicts`: the rung of exact metrics, and the table of all rungs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pamd.cli.console import print_text
from pamd.cli.progress import Steps
from pamd.errors import NoRunsError
from pamd.experiments.claims import CLAIMS
from pamd.report.aggregate import Comparison
from pamd.report.exact_verdicts import EXACT_DISTANCES, EXACT_OUTCOMES, exact_answers
from pamd.report.forest import forest_figure
from pamd.report.instruments import instrument_figure, instrument_table, measure
from pamd.report.verdicts import Answer, rung_table, verdict_table
from pamd.table import Table

__all__ = ["DEFAULT_RUNGS", "EXACT", "RUNGS", "reproduce_exact", "write_and_print", "write_instruments", "write_rungs"]

EXACT = "exact"
"""The rung that fits exact metrics and trains no agents."""
RUNGS = (EXACT, "toy", "states", "pixels", "paper")
"""The rungs, from the cheapest task to the most realistic one. All but `exact` are experiments, `verdicts-RUNG`."""
DEFAULT_RUNGS = RUNGS[:-1]
"""The rungs that run if none is named. The rung `paper` would take years on two cores."""


class Fits(NamedTuple):
    """The size of the exact rung at a scale."""

    seeds: int
    steps: int


_FITS = {"paper": Fits(10, 400), "cpu": Fits(10, 400), "smoke": Fits(2, 5)}
_DIMENSION = 8
_UNITS = {EXACT: "log10 of the error"}
"""The compared quantity of a rung, if it is not the return."""


def reproduce_exact(scale: str, runs: Path, out: Path, *, plan: bool, report_only: bool) -> list[Answer]:
    """Fit exact metrics with every distance, write the verdicts, and return the answers. Finished fits are kept."""
    size = _FITS[scale]
    print_text("The claims on exact metrics of finite MDPs, for which the ground truth is known.")
    if plan:
        print_text(f"{len(EXACT_DISTANCES)} distances, 4 metrics, {size.seeds} seeds: about ten minutes on one core")
        return []
    place = runs / f"{EXACT}-{scale}"
    cells = [dataclasses.asdict(cell) for cell in _fit(size, place, report_only)]
    if not cells:
        raise NoRunsError(f"no fit of the rung exact is in {place}: there is nothing to report")
    found: list[Answer] = []
    for outcome in EXACT_OUTCOMES:
        answers = exact_answers(cells, CLAIMS, outcome, np.random.default_rng(0))
        if answers:
            write_and_print(verdict_table(answers, CLAIMS, f"verdicts-{EXACT}", outcome, _UNITS[EXACT]), out)
        found += answers
    return found


def _fit(size: Fits, place: Path, report_only: bool) -> Sequence[Any]:
    import torch

    from pamd import diagnostics

    torch.set_num_threads(1)  # The fits are small: a second thread makes them slower.
    with Steps() as progress:
        return diagnostics.exact(
            distances=EXACT_DISTANCES,
            dimensions=(_DIMENSION,),
            seeds=size.seeds,
            steps=size.steps,
            out=place,
            progress=progress,
            interrupted=report_only,
        ).cells


def write_rungs(rungs: Mapping[str, Sequence[Answer]], out: Path) -> None:
    """Write and print the table of all rungs that have an answer, and draw their effects."""
    found = {name: answers for name, answers in rungs.items() if answers}
    if found:
        table = rung_table(found)
        write_and_print(table, out)
        forest_figure(found, out / table.name, {rung: _UNITS.get(rung, "return") for rung in found})


def write_instruments(comparison: Comparison, name: str, out: Path) -> None:
    """Write a table and a figure that show which instrument predicts the return, and print the table."""
    found = measure(comparison)
    table = instrument_table(found, name, np.random.default_rng(0))
    if table is not None:
        write_and_print(table, out)
        instrument_figure(found, out / table.name)


def write_and_print(table: Table, out: Path) -> None:
    """Write a table to `out`, and print it with its title and notes."""
    table.write(out)
    print_text("\n".join(["", table.title, table.text(), *table.notes]))
