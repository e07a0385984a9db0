"""The numbers behind a page as CSV: one file with a row per run, one with a row per evaluation of every run.

A page on many runs shows only summaries, so that it stays small. These files are complete for every page.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pamd.report.comparison import Cell, Comparison
from pamd.report.markup import config_file, escaped
from pamd.report.run import Run
from pamd.table import csv_cell

RUNS, EVALUATIONS = "data/runs.csv", "data/evaluations.csv"
_PLACE = ("run", "task", "method", "seed")
_RUN = ("scale", "fidelity", "state", "budget", "decisions", "frames", "updates", "minutes", "return",
        "unseen return", "success rate", "confirmed by", "warnings", "config")  # fmt: skip
_EVALUATION = ("decisions", "frames", "updates", "minutes", "return", "unseen return", "success rate", "returns")


def write_data(comparison: Comparison, out: Path) -> None:
    """Write the two files below `out`. Backgrounds of `--evaluate-on` have one column each."""
    elsewhere = sorted({name for run in comparison.runs for row in run.curve.elsewhere for name in row})
    heads = [f"return on {name}" for name in elsewhere]
    _write(out / RUNS, (*_PLACE, *_RUN, *heads), _runs(comparison, elsewhere))
    _write(out / EVALUATIONS, (*_PLACE, *_EVALUATION, *heads), _evaluations(comparison, elsewhere))


def links() -> str:
    """Return a sentence that leads to the files as HTML."""
    runs, evaluations = (f'<a href="{name}" download>{escaped(name)}</a>' for name in (RUNS, EVALUATIONS))
    return f"<p class=note>All numbers: {runs} has a row per run, {evaluations} a row per evaluation.</p>"


def _runs(comparison: Comparison, elsewhere: Sequence[str]) -> Iterator[list[Any]]:
    for cell, run in _ordered(comparison):
        state = "finished" if run.finished else run.state
        last = _row(run, len(run.curve.decisions) - 1, elsewhere) if run.curve.decisions else None
        numbers, others = last or ([None] * 7, [None] * len(elsewhere))
        facts = [cell.setting.scale, cell.column.fidelity, state, run.budget]
        warnings = "; ".join(f"{kind} {text}" for kind, text in run.warnings.items())
        yield [*_place(cell, run), *facts, *numbers, run.verified, warnings, config_file(run), *others]


def _evaluations(comparison: Comparison, elsewhere: Sequence[str]) -> Iterator[list[Any]]:
    for cell, run in _ordered(comparison):
        place = _place(cell, run)
        for index, returns in enumerate(run.curve.returns):
            numbers, others = _row(run, index, elsewhere)
            # A JSON list: text that begins with a minus sign would look like a formula.
            yield [*place, *numbers, f"[{', '.join(f'{value:.6g}' for value in returns)}]", *others]


def _row(run: Run, index: int, elsewhere: Sequence[str]) -> tuple[list[Any], list[Any]]:
    """Return the numbers of one evaluation, and its returns on the backgrounds `elsewhere`."""
    curve = run.curve
    seconds = curve.seconds[index]
    counts = [curve.decisions[index], curve.frames[index], curve.updates[index]]
    minutes = None if seconds is None else seconds / 60
    means = [float(curve.means[index]), _mean(curve.unseen[index]), _mean(curve.successes[index])]
    others = [_mean(curve.elsewhere[index].get(name, [])) for name in elsewhere]
    return [*counts, minutes, *means], others


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _ordered(comparison: Comparison) -> Iterator[tuple[Cell, Run]]:
    return ((cell, run) for cell in comparison.rows for run in cell.runs)


def _place(cell: Cell, run: Run) -> list[Any]:
    return [run.name, cell.setting.label, cell.column.label, run.seed]


def _write(path: Path, heads: Iterable[str], rows: Iterable[Sequence[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([csv_cell(head) for head in heads])
        writer.writerows([csv_cell(value) for value in row] for row in rows)
