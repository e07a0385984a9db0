"""Figures and report sections for the results of `pamd diagnose`. This package reads files and does not need torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pamd.errors import UnknownNameError
from pamd.report.diagnostics import exact, geometry, latents, residual
from pamd.report.diagnostics.section import Section, load, number, parse_section
from pamd.report.figures import page_style
from pamd.table import Table

__all__ = ["Section", "draw", "parse_section"]

_DRAWERS = {
    "residual": residual.section,
    "geometry": geometry.section,
    "latents": latents.section,
    "exact": exact.section,
    "dimension": exact.dimension_section,
}


@page_style()
def draw(directory: Path) -> Section:
    """Write figures (SVG and PNG) and section.json from data.json and arrays.npz in `directory`."""
    data = load(directory)
    kind = data.get("kind")
    if not isinstance(kind, str):
        raise UnknownNameError(f"diagnostic in {directory / 'data.json'}", kind, _DRAWERS)
    section = _DRAWERS.get(kind, _numbers)(data, directory)
    section.write(directory)
    return section


def _numbers(data: dict[str, Any], directory: Path) -> Section:
    """Return the section of a diagnostic without figures of its own: a table of its numbers."""
    numbers = {name: value for name, value in data.items() if isinstance(value, int | float)}
    rows = [[name, number(value)] for name, value in numbers.items()]
    return Section(f"Diagnostic {data['kind']}", [], [Table(data["kind"], "numbers", ["name", "value"], rows)], [])
