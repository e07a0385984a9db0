"""Tables and figures of the diagnostics, from the data.json that `pamd diagnose` wrote."""

from __future__ import annotations

from pathlib import Path

from pamd.table import Table
from studies.output import draw_diagnostic, write_tables

__all__ = ["HERE", "write"]

HERE = Path(__file__).parent
RESIDUAL = {
    "residual-quick": "32, random policy (the preset)",
    "residual-256": "256, random policy (`--transitions 256`)",
    "residual-trained": "32 of a trained `dbc-det` agent's replay",
}
_MEASURES = 2
"""`pamd diagnose exact` gives the dimensions for fitted pairs, then for held-out ones."""


def write(out: Path = HERE, *, figures: bool = True) -> None:
    """Write the tables and figures of every folder with a data.json, and the two tables of docs/diagnostics.md."""
    tables: dict[str, dict[str, Table]] = {}
    for data in sorted(HERE.glob("*/data.json")):
        name = data.parent.name
        drawn = draw_diagnostic(data.parent, out / "figures" / name if figures else None)
        tables[name] = {table.name: table for table in drawn}
        write_tables(drawn, out / "tables" / name)
    residual = [[setting, *row[:-1]] for name, setting in RESIDUAL.items() for row in tables[name]["absorption"].rows]
    columns = ["transitions", *tables["residual-quick"]["absorption"].columns[:-1]]
    dimensions = tables["exact"]["dimensions"]
    width = 2 + (len(dimensions.columns) - 2) // _MEASURES
    fitted = [row[:width] for row in dimensions.rows]
    write_tables(
        [
            Table("residual", "Residual fitting in three settings", columns, residual),
            Table("fitted", dimensions.title, dimensions.columns[:width], fitted),
        ],
        out / "tables",
    )
