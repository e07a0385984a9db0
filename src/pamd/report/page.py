"""Write a self-contained HTML report on runs, with figures, tables and configs as additional files."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import importlib.resources
import json
import math
import os
import shutil
import string
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from pamd import atomic_io
from pamd.errors import ResourceError
from pamd.published import Published
from pamd.report import figures
from pamd.report.comparison import Cell, Comparison, compare_readable
from pamd.report.run import read_runs
from pamd.report.sections import SECTIONS, Content
from pamd.report.summary import about
from pamd.runs.files import printable
from pamd.version import __version__

_FILES = ("configs/*.json", "tables/*.csv", "tables/*.tex", "data/*.csv", "figures/*.svg", "figures/*.png")
"""The files of a report beside its page."""
_POINTS = 400
"""The maximum number of points of a curve on the page. A panel is about as wide in pixels."""


def build(
    runs: Sequence[Path],
    out: Path,
    *,
    title: str = "pamd report",
    published: Sequence[Published] = (),
    groups: Mapping[str, Sequence[Path]] | None = None,
) -> Path:
    """Write a report on `runs` (run directories, or directories that contain them) and return the path of its page.

    `published` contains the paper's numbers for comparison. `groups` maps column labels to the runs of one method.
    Unreadable runs are listed on the page with the reason. Raises RunError if no run can be read.
    """
    return write(
        compare_readable(read_runs([Path(run) for run in runs]), groups), out, title=title, published=published
    )


def write(comparison: Comparison, out: Path, *, title: str, published: Sequence[Published] = ()) -> Path:
    """Write the page, tables, figures and configs of `comparison` to `out`, and return the path of the page.

    An earlier report in `out` is replaced after everything is written. If that fails, it stays as it is.
    """
    new = out / f".writing-{os.getpid()}"
    try:
        new.mkdir(parents=True, exist_ok=True)
        sections = sorted((SECTIONS.get(name) for name in SECTIONS.names()), key=lambda section: section.place)
        content = Content(comparison, published, new, np.random.default_rng(0), home=out)
        blocks = {section.heading: section.html(content) for section in sections}
        atomic_io.write(new / "index.html", page_text(comparison, title, blocks).encode())
        _clear(out)
        _move(new, out)
    except OSError as error:
        raise ResourceError(f"cannot write the report in {out}: {error}") from None
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return out / "index.html"


def _move(new: Path, out: Path) -> None:
    """Move all files below `new` to `out`, the page last. Renaming needs no space on the disk."""
    page = new / "index.html"
    files = [path for path in new.rglob("*") if path.is_file() and path != page]
    for folder in {path.parent for path in files}:
        (out / folder.relative_to(new)).mkdir(parents=True, exist_ok=True)
    for path in (*files, page):
        path.replace(out / path.relative_to(new))
    atomic_io.sync_directory(out)


def _clear(out: Path) -> None:
    """Delete the files of an earlier report, so that all files belong to the new report."""
    if (out / "index.html").is_file():
        for pattern in _FILES:
            for file in out.glob(pattern):
                file.unlink()


def page_text(comparison: Comparison, title: str, blocks: Mapping[str, str]) -> str:
    """Return the HTML of the page. `blocks` maps section headings to HTML; empty sections are omitted."""
    here = importlib.resources.files("pamd.report")
    names = {heading: heading.split()[0].lower() for heading, body in blocks.items() if body}
    style, script = ((here / name).read_text("utf-8") for name in ("page.css", "page.js"))
    return string.Template((here / "page.html").read_text("utf-8")).substitute(
        title=html.escape(printable(title)),
        generator=f"pamd {__version__}",
        policy=_policy(style, script),
        style=style,
        script=script,
        about=about(comparison, datetime.now(UTC)),
        links="".join(f'<a href="#{name}">{html.escape(heading)}</a>' for heading, name in names.items()),
        sections="\n".join(
            f'<section id="{name}"><h2>{html.escape(heading)}</h2>{blocks[heading]}</section>'
            for heading, name in names.items()
        ),
        # "</script>" in a string would end the script element.
        data=json.dumps(_data(comparison), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
    )


def _policy(style: str, script: str) -> str:
    """Return a Content-Security-Policy that allows only our style and script, and embedded images and videos."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    rules = {
        "default-src": "'none'",
        "style-src": f"'sha256-{hashes[0]}'",
        "script-src": f"'sha256-{hashes[1]}'",
        "img-src": "data:",
        "media-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {sources}" for name, sources in rules.items())


def _data(comparison: Comparison) -> dict[str, Any]:
    look = {
        column: {"label": column.label, "color": hue, "dark": figures.dark(hue), "dashes": dashes}
        for column, (hue, dashes) in figures.styles(comparison.columns).items()
    }
    panels = []
    for setting in comparison.settings:
        series = []
        for cell in comparison.row(setting):
            curve = figures.mean_curve(cell.runs)
            lines = _quartiles(cell, curve) if comparison.many else [figures.mean_curve([run]) for run in cell.runs]
            points, seeds = _points(curve), [_points(line) for line in lines]
            series.append({**look[cell.column], "runs": len(cell.runs), "points": points, "seeds": seeds})
        panels.append({"title": setting.label, "series": series})
    return {"methods": list(look.values()), "panels": panels}


def _quartiles(cell: Cell, curve: figures.MeanCurve) -> list[figures.MeanCurve]:
    """Return the lower quartile, the median and the upper quartile of many runs, in place of a line per run."""
    return [dataclasses.replace(curve, mean=line) for line in figures.quartiles(cell.runs, curve.decisions)]


def _points(curve: figures.MeanCurve) -> list[list[float | None]]:
    """Convert a curve to JSON rows for page.js, with at most `_POINTS` points. NaN becomes null."""
    columns = [curve.decisions, curve.frames, curve.updates, curve.seconds / 60, curve.mean, curve.error, curve.seeds]
    count = len(curve.decisions)
    shown = np.unique(np.linspace(0, count - 1, min(count, _POINTS)).round().astype(int))
    rows = zip(*(column[shown].tolist() for column in columns), strict=True)
    return [[None if math.isnan(value) else round(value, 3) for value in row] for row in rows]
