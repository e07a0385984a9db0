"""The sections of the page that show files of the runs: diagnostics and configs.

A file that cannot be shown is listed with the reason. The rest of the report is still written.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from pamd.errors import RunError
from pamd.report import data
from pamd.report.diagnostics import Section, parse_section
from pamd.report.markup import anchor, config_file, escaped, figure, note
from pamd.report.run import Run
from pamd.report.sections import Content, add
from pamd.runs import files

_LISTED = 12
"""Longer lists of runs are collapsed."""
_SVG_BYTES = 400_000
"""If an SVG is larger than this, the smaller of SVG and PNG is embedded. PNG is smaller for many points."""


@add(50, "Diagnostics")
def diagnostics(content: Content) -> str:
    """Return the HTML of all RUN/diagnostics/*/section.json files."""
    text = ""
    for run in content.comparison.runs:
        for name in files.names_in(run.path, "diagnostics"):
            place = f"diagnostics/{name}"
            if "section.json" not in files.names_in(run.path, place):
                continue
            try:
                text += _section(run, place)
            except (OSError, RunError) as error:
                text += note(f"{run.name}: {place} cannot be shown: {error}")
    return text


@add(60, "Runs and their configs")
def provenance(content: Content) -> str:
    """Return the state, config and command of each run as HTML. The configs are also written to out/configs."""
    runs, many = content.comparison.runs, content.comparison.many
    (content.out / "configs").mkdir(parents=True, exist_ok=True)
    for run in runs:
        (content.out / config_file(run)).write_text(run.config_text, encoding="utf-8")
    text = _table(runs) if many else "".join(map(_run, runs))
    if len(runs) > _LISTED:
        text = f"<details><summary>All {len(runs):,} runs</summary>{text}</details>"
    how = "To repeat a run, run its command in the directory of this page."
    if many:
        how = "To repeat a run, run pamd train --config configs/RUN.json in the directory of this page."
    return f"{note(how)}{data.links()}{text}"


def _table(runs: Sequence[Run]) -> str:
    """Return a row per run as HTML, with a link to its config."""
    heads = "".join(f"<th scope=col>{head}</th>" for head in ("config", "state", "confirmed by", "warnings"))
    rows = "".join(
        f'<tr id={anchor(run)}><td class=name><a href="{quote(config_file(run))}">{escaped(run.name)}</a>'
        f"<td>{escaped(_state(run))}<td>{escaped(run.verified or 'nothing')}<td>{escaped(_warnings(run))}"
        for run in runs
    )
    return f'<div class=wide tabindex=0 role=region aria-label="Runs"><table><tr>{heads}{rows}</table></div>'


def _warnings(run: Run) -> str:
    """Return the kinds of the warnings in training and their first decisions. data/runs.csv has the whole text."""
    return ", ".join(f"{kind} {text.partition(': ')[0]}" for kind, text in run.warnings.items())


def _state(run: Run) -> str:
    return f"finished, {run.budget:,} decisions" if run.finished else run.progress


def _run(run: Run) -> str:
    file = config_file(run)
    command = shlex.join(["pamd", "train", "--config", file])
    what = "This config and the logs are" if run.verified.startswith("checkpoint") else "This config is"
    verified = f"confirmed by {run.verified}" if run.verified else "not confirmed: the directory contains no evidence"
    link = f'<a href="{quote(file)}">{escaped(file)}</a>'
    warned = "".join(note(f"{kind}, {text}") for kind, text in run.warnings.items())
    return (
        f"<details id={anchor(run)}><summary>{escaped(f'{run.name} ({_state(run)})')}</summary>"
        f"<p>Command:</p><pre>{escaped(command)}</pre><p>Config: {link}</p>"
        f"{note(f'{what} {verified}.')}{warned}<pre>{escaped(run.config_text)}</pre></details>"
    )


@add(70, "Unreadable runs")
def unreadable(content: Content) -> str:
    """Return the excluded directories with the reasons as HTML."""
    items = "".join(
        f"<li><code>{escaped(str(one.path))}</code>: {escaped(one.reason)}</li>"
        for one in content.comparison.unreadable
    )
    return items and f"<ul>{items}</ul>"


def _section(run: Run, place: str) -> str:
    section: Section = parse_section(files.read(run.path, f"{place}/section.json"), f"{run.path / place}")
    text = f"<h3>{escaped(section.title)}: {escaped(run.name)}</h3>"
    text += "".join(f"<p>{escaped(paragraph)}</p>" for paragraph in section.paragraphs)
    text += "".join(table.html() for table in section.tables)
    for one in section.figures:
        drawn = [f"{place}/{one.file}{suffix}" for suffix in (".svg", ".png")]
        present = [name for name in drawn if files.is_inside(run.path, name)]
        if not present:
            raise RunError(f"{run.path / place} has no figure {one.file!r}, as SVG or PNG")
        contents = {name: files.read(run.path, name) for name in present}
        if len(contents[present[0]]) > _SVG_BYTES:
            present.sort(key=lambda name: len(contents[name]))
        text += figure(Path(present[0]).suffix, contents[present[0]], one.caption)
    return text
