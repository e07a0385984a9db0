"""The newest video of each run, with methods side by side for the same task and seed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from pamd.report.comparison import Cell, Comparison, Setting
from pamd.report.config import has_noise
from pamd.report.markup import anchor, escaped, inline, note
from pamd.report.run import Run
from pamd.report.sections import Content, add
from pamd.report.statistics import Estimate
from pamd.runs import files
from pamd.table import counted

VIDEO_BYTES = 1_000_000
"""Larger videos are linked instead of embedded."""
_PAGE_BYTES = 20_000_000
"""The maximum total size of embedded videos in bytes. Further videos are linked."""
_MANY_BYTES = 1_000_000
"""The same for a page on many runs, which must stay small."""


@add(30, "Videos")
def videos(content: Content) -> str:
    """Return one row of videos per setting and seed as HTML. All seeds except the first are collapsed."""
    comparison, out = content.comparison, content.home or content.out
    text, fits = "", _allowance(_MANY_BYTES if comparison.many else _PAGE_BYTES)
    for setting in comparison.settings:
        rows = _rows(comparison, setting, out, fits)
        if rows:
            more, seeds = "".join(rows[1:]), counted(len(rows) - 1, "more seed")
            folded = more and f"<details><summary>{seeds}</summary>{more}</details>"
            if more and comparison.many:
                folded = note(f"The videos of {seeds} are in the run directories.")
            text += f"<h3>{escaped(setting.label)}</h3>{rows[0]}{folded}"
    return text


def _rows(comparison: Comparison, setting: Setting, out: Path, fits: Callable[[int], bool]) -> list[str]:
    rows = []
    cells = comparison.row(setting)
    for seed in sorted({run.seed for cell in cells for run in cell.runs}):
        pairs = [(cell, run) for cell in cells for run in cell.runs if run.seed == seed]
        shown = "".join(_shown(cell, run, out, fits) for cell, run in pairs)
        if shown:
            play = '<button type=button class=play hidden aria-pressed="false">Play together</button>'
            button = play if shown.count("<video") > 1 else ""
            rows.append(f"<div class=together><h4>Seed {seed}</h4>{button}<div class=videos>{shown}</div></div>")
    return rows


def _shown(cell: Cell, run: Run, out: Path, fits: Callable[[int], bool]) -> str:
    """Return a run's video with its caption; "" if it has none."""
    name = _newest(run.path)
    if name is None:
        return ""
    try:
        size = (run.path / name).stat().st_size
        if fits(size):
            source = inline(".mp4", files.read(run.path, name))
            shown = f'<video controls loop muted playsinline preload=auto src="{source}"></video>'
        else:
            address = quote(os.fsencode(Path(os.path.relpath(run.path / name, out)).as_posix()))
            shown = f'<a href="{address}">Video ({size / 1e6:.1f} MB)</a>'
    except OSError as error:
        return note(f"The video of {run.name} cannot be shown: {error}")
    caption = f"<strong>{escaped(cell.column.label)}</strong> {escaped(_caption(run, name))}"
    link = f'<a href="#{anchor(run)}">config and command</a>'
    return f"<figure>{shown}<figcaption>{caption} ({link})</figcaption></figure>"


def _newest(run: Path) -> str | None:
    names = [name for name in files.names_in(run, "video") if name.endswith(".mp4") and not name.startswith(".")]
    found = [name for name in names if files.is_inside(run, f"video/{name}")]
    newest = max(found, key=lambda name: (_decisions(name) or 0, name), default=None)
    return None if newest is None else f"video/{newest}"


def _decisions(name: str) -> int | None:
    """Return the number of decisions at the evaluation in a video, from its file name."""
    found = re.fullmatch(r"([0-9]{1,18})\.mp4", name.removeprefix("video/"))
    return int(found[1]) if found else None


def _caption(run: Run, name: str) -> str:
    """Return a caption with the decisions and the return of the episode, which is the first of its evaluation."""
    decisions = _decisions(name)
    if decisions not in run.curve.decisions:
        return f"({name.removeprefix('video/')}, not in the log of evaluations)"
    index = run.curve.decisions.index(decisions)
    returns, unseen = run.curve.returns[index], run.curve.unseen[index]
    text = f"after {decisions:,} decisions: return {_value(returns[0])}"
    if unseen:
        text += f", then {_value(unseen[0])} with unseen {'noise' if has_noise(run.config) else 'backgrounds'}"
    if len(returns) > 1:
        text += f"; mean of {len(returns)} episodes {_value(sum(returns) / len(returns))}"
    return text


def _value(score: float) -> Estimate:
    """Format a return as in the tables."""
    return Estimate(score, None, None)


def _allowance(left: int) -> Callable[[int], bool]:
    """Return a function that decides whether a video of a given size may be embedded, up to `left` bytes in total."""

    def fits(size: int) -> bool:
        nonlocal left
        if size >= VIDEO_BYTES or size > left:
            return False
        left -= size
        return True

    return fits
