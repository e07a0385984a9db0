"""Tables of the return of pilots by decisions."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from pamd.errors import RunError
from pamd.table import Table, Value
from studies.output import write_tables
from studies.screening.plan import TABLES, Pilot

__all__ = ["HERE", "write"]

HERE = Path(__file__).parent


def write(out: Path = HERE, *, figures: bool = True) -> None:
    """Write the tables of plan.py. The study has no figure."""
    with (HERE / "pilots.csv").open(encoding="utf-8", newline="") as file:
        pilots = list(csv.DictReader(file))
    tables = []
    for name, (decisions, shown) in TABLES.items():
        rows = [_row(pilot, decisions, pilots) for pilot in shown]
        heads = ["return after decisions", *(f"{count:,}" for count in decisions)]
        tables.append(Table(name, f"Pilots: {name}", heads, rows))
    write_tables(tables, out / "tables")


def _row(pilot: Pilot, decisions: Sequence[int], pilots: Sequence[dict[str, str]]) -> list[Value]:
    own = [row for row in pilots if all(row[field] == getattr(pilot, field) for field in Pilot._fields[1:])]
    returns = {int(row["decisions"]): float(row["return_mean"]) for row in own}
    if not returns or len(returns) < len(own):
        raise RunError(f"pilots.csv must have one run of {pilot}, got {len(own)} rows")
    return [pilot.label, *(round(returns[count]) if count in returns else None for count in decisions)]
