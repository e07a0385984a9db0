"""Tables and figures of a study: CSV files, and PNG files that are small enough for the repository."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from pamd.published import Published
from pamd.report import tables as made
from pamd.report.comparison import Comparison
from pamd.report.diagnostics import draw
from pamd.table import Table

__all__ = ["comparison_tables", "draw_diagnostic", "publish_figure", "write_tables"]

_COLORS = 64
"""Lines and text need few colors. A palette makes a PNG a quarter as large."""


def comparison_tables(comparison: Comparison, published: Sequence[Published] = ()) -> list[Table]:
    """Return the tables of the report page: returns, the paper's numbers beside them, aggregates and differences."""
    rng = np.random.default_rng(0)
    tables = [made.summary(comparison, rng)]
    tables += [made.returns(comparison, scale) for scale in comparison.scales]
    more = [made.compared_table(comparison, published)] if published else []
    for scale in comparison.scales:
        more += [
            made.aggregates(comparison, scale, rng),
            made.improvement(comparison, scale, rng),
            made.differences(comparison, scale),
        ]
    return [*tables, *(table for table in more if table is not None)]


def write_tables(tables: Iterable[Table], out: Path) -> None:
    """Write each table to out/NAME.csv."""
    out.mkdir(parents=True, exist_ok=True)
    for table in tables:
        (out / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")


def publish_figure(written: Sequence[Path]) -> None:
    """Keep the PNG of a figure (`save_figure` wrote SVG and PNG), with a palette instead of full colors."""
    from PIL import Image

    for path in written:
        if path.suffix == ".png":
            with Image.open(path) as picture:
                small = picture.convert("RGB").quantize(_COLORS, dither=Image.Dither.NONE)
            small.save(path, optimize=True)
        else:
            path.unlink()


def draw_diagnostic(data: Path, figures: Path | None) -> list[Table]:
    """Return the tables of a diagnostic, from data.json and arrays.npz in `data`. Copy its figures to `figures`."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(shutil.copytree(data, Path(folder) / "diagnostic"))
        section = draw(place)
        for picture in section.figures if figures is not None else ():
            assert figures is not None
            figures.mkdir(parents=True, exist_ok=True)
            publish_figure([Path(shutil.copy(place / f"{picture.file}.png", figures))])
    return section.tables
