"""Figures and report sections for the results of `pamd diagnose`. This package reads files and does not need torch."""

from __future__ import annotations

from pathlib import Path

from pamd.errors import UnknownNameError
from pamd.report.diagnostics import dimension, exact, geometry, latents, residual
from pamd.report.diagnostics.section import Section, load, parse_section, read_section
from pamd.report.figure import page_style

__all__ = ["Section", "draw", "parse_section", "read_section"]

_DRAWERS = {
    "residual": residual.section,
    "geometry": geometry.section,
    "latents": latents.section,
    "exact": exact.section,
    "dimension": dimension.section,
}


@page_style()
def draw(directory: Path) -> Section:
    """Write figures (SVG and PNG) and section.json from data.json and arrays.npz in `directory`."""
    data = load(directory)
    if data.get("kind") not in _DRAWERS:
        raise UnknownNameError(f"diagnostic in {directory / 'data.json'}", data.get("kind"), _DRAWERS)
    section = _DRAWERS[data["kind"]](data, directory)
    section.write(directory)
    return section
