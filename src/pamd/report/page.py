"""One self-contained HTML page about runs, and beside it the same figures, tables and configs as files."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.resources
import json
import math
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pamd import durable
from pamd.errors import ResourceError
from pamd.published import Published
from pamd.report import inference, paper, plots, results
from pamd.report.aggregate import Comparison, compare_found
from pamd.report.curves import mean_curve
from pamd.report.load import read_runs
from pamd.report.run import Run
from pamd.report.sections import diagnostics, picture, provenance, unreadable, videos
from pamd.report.text import file_name, printable
from pamd.table import Table, counted
from pamd.version import __version__

__all__ = ["build", "page_text", "write"]

_ROWS = 40
"""The page folds a table with more rows."""


def build(
    runs: Sequence[Path],
    out: Path,
    *,
    title: str = "pamd report",
    published: Sequence[Published] = (),
    groups: Mapping[str, Sequence[Path]] | None = None,
) -> Path:
    """Report on `runs` (run directories, or directories of them) in `out`; the path of the page, out/index.html.

    `published` are the paper's numbers to show beside ours. `groups` names columns: label -> runs of one method.
    A run that cannot be read is listed on the page with the reason; RunError where none can be read.
    """
    return write(compare_found(read_runs([Path(run) for run in runs]), groups), out, title=title, published=published)


def write(comparison: Comparison, out: Path, *, title: str, published: Sequence[Published] = ()) -> Path:
    """The page about `comparison` in `out`, with its tables, figures and configs; the path of the page."""
    rng = np.random.default_rng(0)
    try:
        out.mkdir(parents=True, exist_ok=True)
        _clear(out)
        blocks = {
            "Returns": _returned(comparison, published, out, rng),
            "Learning curves": _curves(comparison, out),
            "Statistics": _statistics(comparison, out, rng),
            "Diagnostics": diagnostics(comparison.runs),
            "Videos": videos(comparison.runs, out),
            "Runs and how to repeat them": provenance(comparison.runs, out),
            "Unreadable runs": unreadable(comparison.unreadable),
        }
        durable.replace(out / "index.html", page_text(comparison, title, blocks).encode())
    except OSError as error:
        raise ResourceError(f"cannot write the report in {out}: {error}") from None
    return out / "index.html"


def _clear(out: Path) -> None:
    """Delete the files of an earlier report, so that every file beside the page belongs to this one."""
    if (out / "index.html").is_file():
        for pattern in ("configs/*.json", "tables/*.csv", "tables/*.tex", "figures/*.svg", "figures/*.png"):
            for file in out.glob(pattern):
                file.unlink()


def page_text(comparison: Comparison, title: str, blocks: Mapping[str, str]) -> str:
    """The HTML of the page; `blocks` maps the heading of each section to its HTML. An empty one is left out."""
    here = importlib.resources.files("pamd.report")
    names = {heading: heading.split()[0].lower() for heading, body in blocks.items() if body}
    style, script = ((here / name).read_text("utf-8") for name in ("page.css", "page.js"))
    return string.Template((here / "page.html").read_text("utf-8")).substitute(
        title=html.escape(printable(title)),
        generator=f"pamd {__version__}",
        policy=_policy(style, script),
        style=style,
        script=script,
        about=_about(comparison),
        links="".join(f'<a href="#{name}">{html.escape(heading)}</a>' for heading, name in names.items()),
        sections="\n".join(
            f'<section id="{name}"><h2>{html.escape(heading)}</h2>{blocks[heading]}</section>'
            for heading, name in names.items()
        ),
        # "</script>" within a string would end the element.
        data=json.dumps(_data(comparison), allow_nan=False).replace("<", "\\u003c"),
    )


def _policy(style: str, script: str) -> str:
    """The Content-Security-Policy: our own style and script, embedded pictures and videos, and nothing else."""
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


def _about(comparison: Comparison) -> str:
    """What the page is about, and what a reader should know first."""
    fidelities = sorted({column.fidelity for column in comparison.columns})
    methods = {column.method for column in comparison.columns}
    counts = [
        counted(len(comparison.runs), "run"),
        counted(len(methods), "method")
        + (f" in {len(comparison.columns)} variants" if len(methods) < len(comparison.columns) else ""),
        counted(len({setting.name for setting in comparison.settings}), "task"),
        counted(len({run.seed for run in comparison.runs}), "seed"),
    ]
    words = (
        f"{', '.join(counts)}. Fidelity: {' and '.join(fidelities)}. Scale: {' and '.join(comparison.scales)}."
        f" Made by pamd {__version__} from the run directories alone."
    )
    items = "".join(f"<li>{html.escape(notice)}</li>" for notice in _notices(comparison))
    box = f"<div class=notices role=note><strong>Please note</strong><ul>{items}</ul></div>" if items else ""
    return f"<p>{html.escape(words)}</p>{box}"


def _notices(comparison: Comparison) -> list[str]:
    notices = [f"{one.name} cannot be read and does not count; the reason is below." for one in comparison.unreadable]
    notices += [f"{run.name}: {notice}" for run in comparison.runs for notice in run.notices]
    notices += [cell.notice for cell in comparison.rows if cell.notice]
    if len({column.fidelity for column in comparison.columns}) > 1 or len(comparison.scales) > 1:
        notices.append("These runs have several fidelities or scales. Each has its own columns and tables.")
    if max(len(cell.scores) for cell in comparison.rows) < 2:
        notices.append("No method has more than one finished seed in a setting: nothing here says which is better.")
    return notices


def _written(tables: Sequence[Table | None], out: Path) -> str:
    """HTML of the tables that exist; their files in out/tables."""
    made = [table for table in tables if table is not None]
    for table in made:
        table.write(out / "tables")
    return "".join(_folded(table) for table in made)


def _folded(table: Table) -> str:
    """A long table is folded."""
    if len(table.rows) <= _ROWS:
        return table.html()
    return f"<details><summary>{html.escape(table.title)} ({len(table.rows)} rows)</summary>{table.html()}</details>"


def _returned(comparison: Comparison, published: Sequence[Published], out: Path, rng: np.random.Generator) -> str:
    text = _written([results.summary(comparison, published, rng)], out)
    text += _written([results.layout(comparison, scale) for scale in comparison.scales], out)
    if published:
        own = _written([paper.published_table(published)], out)
        text += f"<details><summary>All requested numbers of the paper</summary>{own}</details>"
    return text


def _curves(comparison: Comparison, out: Path) -> str:
    plots.curves(comparison, out / "figures" / "learning-curves")
    units = {"decisions": "decisions", "frames": "frames", "updates": "updates", "minutes": "wall time"}
    radios = "".join(
        f"<label><input type=radio name=unit value={unit}{' checked' if unit == 'decisions' else ''}> {name}</label>"
        for unit, name in units.items()
    )
    return (
        "<p class=note>Mean over seeds of the mean return of an evaluation; band: one standard error. At each point a"
        " run counts with its last evaluation at or before it, and not after its last one. The line is thin where a"
        " seed ended early. One decision is one update after the random phase.</p>"
        "<noscript><p>Without JavaScript: the same curves are in figures/learning-curves.svg.</p></noscript>"
        '<div class=controls id=methods role=group aria-label="Methods"></div>'
        f"<div class=controls><fieldset><legend>x axis:</legend>{radios}</fieldset>"
        "<label><input type=checkbox id=seeds> each seed</label></div>"
        "<div class=panels id=panels></div>"
    )


def _statistics(comparison: Comparison, out: Path, rng: np.random.Generator) -> str:
    text = ""
    for scale in comparison.scales:
        text += _written([inference.aggregates(comparison, scale, rng)], out)
        pairs = [inference.improvement(comparison, scale, rng), inference.differences(comparison, scale)]
        alone = f"<p>No two methods finished in one setting at {html.escape(scale)} scale: nothing can be compared.</p>"
        text += _written(pairs, out) or alone
        drawn = plots.profiles(comparison, scale, out / "figures" / file_name(f"profiles-{scale}"), rng)
        text += picture(drawn[0], f"The share of runs above each return, {scale} scale.") if drawn else ""
    return text


def _data(comparison: Comparison) -> dict[str, Any]:
    look = plots.styles(comparison.columns)
    methods = [{"label": c.label, "colour": look[c][0], "dashes": look[c][1]} for c in comparison.columns]
    panels = []
    for setting in comparison.settings:
        series = []
        for cell in comparison.row(setting):
            hue, dashes = look[cell.column]
            common = {"label": cell.column.label, "colour": hue, "dashes": dashes, "runs": len(cell.runs)}
            series.append({**common, "points": _points(cell.runs), "seeds": [_points([run]) for run in cell.runs]})
        panels.append({"title": setting.label, "series": series})
    return {"methods": methods, "panels": panels}


def _points(runs: Sequence[Run]) -> list[list[float | None]]:
    """A mean curve as JSON rows in the order that page.js reads. JSON has no NaN, so it becomes null."""
    curve = mean_curve(runs)
    columns = [curve.decisions, curve.frames, curve.updates, curve.seconds / 60, curve.mean, curve.error, curve.seeds]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [[None if math.isnan(value) else round(value, 3) for value in row] for row in rows]
