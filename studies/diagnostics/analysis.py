"""Tables and figures of the diagnostics, from the files that `pamd diagnose` and `collect.py` wrote."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import parquet

from pamd.table import Table
from studies.output import draw_diagnostic, write_tables

__all__ = ["FITS", "HERE", "SETTINGS", "write"]

HERE = Path(__file__).parent
FITS = HERE / "exact-heads.parquet"
"""The fits of all heads to the metrics of 22 MDPs, one row per fit."""
SETTINGS: dict[str, Any] = {"steps": 150, "learning_rate": 2e-2, "held_out": 0.2}
"""The settings of these fits."""
RESIDUAL = {
    "residual-quick": "32, random policy (the preset)",
    "residual-256": "256, random policy (`--transitions 256`)",
    "residual-trained": "32 of a trained `dbc-det` agent's replay",
}
_MEASURES = 2
"""`pamd diagnose exact` gives the dimensions for fitted pairs, then for held-out ones."""


def write(out: Path = HERE, *, figures: bool = True) -> None:
    """Write the tables and figures of every folder with a data.json, and the tables of docs/diagnostics.md."""
    tables: dict[str, dict[str, Table]] = {}
    fits = list(parquet.read_table(FITS).to_pylist())
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data.json").write_text(json.dumps({"kind": "exact", "settings": SETTINGS, "cells": fits}))
        drawn = draw_diagnostic(Path(folder), out / "figures" / FITS.stem if figures else None)
    write_tables(drawn, out / "tables" / FITS.stem)
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
            _embedding(fits),
        ],
        out / "tables",
    )


def _embedding(cells: list[dict[str, Any]]) -> Table:
    """Return a row per distance: distortion at each dimension, held-out error, and violated triples; over 22 MDPs."""
    dimensions = sorted({cell["latent_dim"] for cell in cells})
    rows = []
    for name in dict.fromkeys(cell["distance"] for cell in cells):

        def of(measure: str, encoder: str, d: int, name: str = name) -> list[float]:
            chosen = (c for c in cells if (c["distance"], c["encoder"], c["latent_dim"]) == (name, encoder, d))
            return [math.inf if c[measure] is None else c[measure] for c in chosen]

        distortions = [_shown(float(np.median(of("distortion", "trainable", d)))) for d in dimensions]
        frozen = _shown(float(np.median(of("distortion", "frozen", dimensions[-1]))))
        held_out = _shown(float(np.median(of("held_out", "trainable", dimensions[-1]))))
        broken = [f"{np.mean(of('violations', 'trainable', d)):.1%}" for d in (dimensions[0], dimensions[-1])]
        rows.append([name, *distortions, frozen, held_out, *broken])
    last = dimensions[-1]
    columns = ["distance", *(f"distortion, d = {d}" for d in dimensions), f"frozen table, d = {last}"]
    columns += [f"held out, d = {last}", f"triangle violations, d = {dimensions[0]}", f"d = {last}"]
    return Table("embedding", "Metrics of 22 MDPs: medians, and means of the violations", columns, rows)


def _shown(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "infinite"
