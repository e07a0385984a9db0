"""Write a self-contained HTML report on runs, with figures, tables and configs as additional files."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.resources
import json
import math
import string
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from pamd import atomic_io
from pamd.errors import ResourceError
from pamd.published import Published
from pamd.report import inference, paper, plots, results
from pamd.report.about import about
from pamd.report.aggregate import Comparison, compare_found
from pamd.report.curves import mean_curve
from pamd.report.figure import dark
from pamd.report.load import read_runs
from pamd.report.run import Run
from pamd.report.sections import diagnostics, picture, provenance, unreadable
from pamd.report.text import file_name
from pamd.report.videos import videos
from pamd.runs.files import printable
from pamd.table import Table
from pamd.version import __version__

__all__ = ["build", "page_text", "write"]

_ROWS = 40
"""Tables with more rows are collapsed."""


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
    return write(compare_found(read_runs([Path(run) for run in runs]), groups), out, title=title, published=published)


def write(comparison: Comparison, out: Path, *, title: str, published: Sequence[Published] = ()) -> Path:
    """Write the page, tables, figures and configs of `comparison` to `out`, and return the path of the page."""
    rng = np.random.default_rng(0)
    try:
        out.mkdir(parents=True, exist_ok=True)
        _clear(out)
        blocks = {
            "Returns": _results(comparison, published, out, rng),
            "Learning curves": _curves(comparison, out),
            "Videos": videos(comparison, out),
            "Statistics": _statistics(comparison, out, rng),
            "Diagnostics": diagnostics(comparison.runs),
            "Runs and their configs": provenance(comparison.runs, out),
            "Unreadable runs": unreadable(comparison.unreadable),
        }
        atomic_io.replace(out / "index.html", page_text(comparison, title, blocks).encode())
    except OSError as error:
        raise ResourceError(f"cannot write the report in {out}: {error}") from None
    return out / "index.html"


def _clear(out: Path) -> None:
    """Delete the files of an earlier report, so that all files belong to the new report."""
    if (out / "index.html").is_file():
        for pattern in ("configs/*.json", "tables/*.csv", "tables/*.tex", "figures/*.svg", "figures/*.png"):
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
        data=json.dumps(_data(comparison), allow_nan=False).replace("<", "\\u003c"),
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


def _write_tables(tables: Sequence[Table | None], out: Path) -> str:
    """Write the tables to out/tables and return their HTML."""
    made = [table for table in tables if table is not None]
    for table in made:
        table.write(out / "tables")
    return "".join(_collapsible(table) for table in made)


def _collapsible(table: Table) -> str:
    """Return the HTML of a table. Long tables are collapsed."""
    if len(table.rows) <= _ROWS:
        return table.html()
    return f"<details><summary>{html.escape(table.title)} ({len(table.rows)} rows)</summary>{table.html()}</details>"


def _results(comparison: Comparison, published: Sequence[Published], out: Path, rng: np.random.Generator) -> str:
    text = _write_tables([results.summary(comparison, rng)], out)
    text += _write_tables([results.layout(comparison, scale) for scale in comparison.scales], out)
    if published:
        text += _write_tables([paper.compared_table(comparison, published)], out)
        written = _write_tables([paper.published_table(published)], out)
        text += f"<details><summary>All numbers from the paper that are used on this page</summary>{written}</details>"
    return text


def _curves(comparison: Comparison, out: Path) -> str:
    plots.curves(comparison, out / "figures" / "learning-curves")
    units = {"decisions": "decisions", "frames": "frames", "updates": "updates", "minutes": "wall time"}
    radios = "".join(
        f"<label><input type=radio name=unit value={unit}{' checked' if unit == 'decisions' else ''}> {name}</label>"
        for unit, name in units.items()
    )
    return (
        "<p class=note>Line: mean over seeds of the evaluation return. Band: one standard error. Thin line: some seeds"
        " ended earlier. Each point uses the most recent evaluation of every run. A run is dropped after its last"
        " one.</p>"
        "<noscript><p>This page draws its curves with JavaScript. figures/learning-curves.svg has the same curves.</p>"
        "</noscript>"
        '<div class=controls id=methods role=group aria-label="Methods"></div>'
        f"<div class=controls><fieldset><legend>x axis:</legend>{radios}</fieldset>"
        "<label><input type=checkbox id=seeds> each seed</label></div>"
        "<div class=panels id=panels></div>"
    )


def _statistics(comparison: Comparison, out: Path, rng: np.random.Generator) -> str:
    text = ""
    for scale in comparison.scales:
        text += _write_tables([inference.aggregates(comparison, scale, rng)], out)
        pairs = [inference.improvement(comparison, scale, rng), inference.differences(comparison, scale)]
        alone = f"No two methods finished in one setting at {html.escape(scale)} scale: there is nothing to compare."
        text += _write_tables(pairs, out) or f"<p>{alone}</p>"
        drawn = plots.profiles(comparison, scale, out / "figures" / file_name(f"profiles-{scale}"), rng)
        text += picture(drawn[0], f"Share of runs above each return, {scale} scale.") if drawn else ""
    return text


def _data(comparison: Comparison) -> dict[str, Any]:
    look = {
        column: {"label": column.label, "color": hue, "dark": dark(hue), "dashes": dashes}
        for column, (hue, dashes) in plots.styles(comparison.columns).items()
    }
    panels = []
    for setting in comparison.settings:
        series = []
        for cell in comparison.row(setting):
            mean, seeds = _points(cell.runs), [_points([run]) for run in cell.runs]
            series.append({**look[cell.column], "runs": len(cell.runs), "points": mean, "seeds": seeds})
        panels.append({"title": setting.label, "series": series})
    return {"methods": list(look.values()), "panels": panels}


def _points(runs: Sequence[Run]) -> list[list[float | None]]:
    """Convert a mean curve to JSON rows for page.js. NaN becomes null."""
    curve = mean_curve(runs)
    columns = [curve.decisions, curve.frames, curve.updates, curve.seconds / 60, curve.mean, curve.error, curve.seeds]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [[None if math.isnan(value) else round(value, 3) for value in row] for row in rows]
