"""The sections on the comparison: returns, learning curves and statistics."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from pamd.report import data, figures, tables
from pamd.report.comparison import of_success
from pamd.report.markup import file_name, picture
from pamd.report.sections import Content, add
from pamd.table import Table

_ROWS = 40
"""Tables with more rows are collapsed."""


@add(10, "Returns")
def returns(content: Content) -> str:
    """Return the tables of returns, and the paper's numbers beside them."""
    comparison, published, out = content.comparison, content.published, content.out
    text = _write_tables([tables.summary(comparison, content.rng)], out)
    text += _write_tables([tables.returns(comparison, scale) for scale in comparison.scales], out)
    text += _write_tables([tables.generalization(comparison)], out)
    if published:
        text += _write_tables([tables.compared_table(comparison, published)], out)
        written = _write_tables([tables.published_table(published)], out)
        text += f"<details><summary>All numbers from the paper that are used on this page</summary>{written}</details>"
    return text


@add(20, "Learning curves")
def curves(content: Content) -> str:
    """Write the figure for print and the data, and return the elements that page.js fills with curves."""
    figures.curves(content.comparison, content.out / "figures" / "learning-curves")
    data.write_data(content.comparison, content.out)
    units = {"decisions": "decisions", "frames": "frames", "updates": "updates", "minutes": "wall time"}
    radios = "".join(
        f"<label><input type=radio name=unit value={unit}{' checked' if unit == 'decisions' else ''}> {name}</label>"
        for unit, name in units.items()
    )
    lines = "quartiles and median of the seeds" if content.comparison.many else "each seed"
    succeeded, success = of_success(content.comparison), ""
    if succeeded is not None:
        drawn = figures.curves(succeeded, content.out / "figures" / "success-curves", "success rate")
        success = picture(drawn[0], "Success rate of the evaluation episodes: mean over seeds and one standard error.")
    return (
        "<p class=note>Line: mean over seeds of the evaluation return. Band: one standard error. Thin line: some seeds"
        " ended earlier. Each point uses the most recent evaluation of every run. A run is dropped after its last"
        " one.</p>"
        "<noscript><p>This page draws its curves with JavaScript. figures/learning-curves.svg has the same curves.</p>"
        "</noscript>"
        '<div class=controls id=methods role=group aria-label="Methods"></div>'
        f"<div class=controls><fieldset><legend>x axis:</legend>{radios}</fieldset>"
        f"<label><input type=checkbox id=seeds> {lines}</label></div>"
        f"<div class=panels id=panels></div>{success}{data.links()}"
    )


@add(40, "Statistics")
def statistics(content: Content) -> str:
    """Return aggregates, paired differences and performance profiles for each scale."""
    comparison, out, rng = content.comparison, content.out, content.rng
    text = ""
    for scale in comparison.scales:
        text += _write_tables([tables.aggregates(comparison, scale, rng)], out)
        pairs = [tables.improvement(comparison, scale, rng), tables.differences(comparison, scale)]
        alone = f"No two methods finished in one setting at {html.escape(scale)} scale: there is nothing to compare."
        text += _write_tables(pairs, out) or f"<p>{alone}</p>"
        drawn = figures.profiles(comparison, scale, out / "figures" / file_name(f"profiles-{scale}"), rng)
        text += picture(drawn[0], f"Share of runs above each return, {scale} scale.") if drawn else ""
    return text


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
