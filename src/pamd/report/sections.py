"""The parts of the page that show files of the runs as they are: diagnostics, videos, configs.

A file that cannot be shown is named with the reason. It never prevents the page.
"""

from __future__ import annotations

import base64
import html
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from pamd.errors import RunError
from pamd.report import files
from pamd.report.diagnosed import Section, parse_section
from pamd.report.run import Run, Unreadable
from pamd.report.text import file_name, printable

__all__ = ["diagnostics", "picture", "provenance", "unreadable", "videos"]

VIDEO_BYTES = 1_000_000
"""The page links a larger video instead of embedding it."""
PAGE_BYTES = 20_000_000
"""Once the page embeds this many bytes of videos, it links the others."""

_LISTED = 12
"""The page folds a longer list of runs."""

_TYPES = {".svg": "image/svg+xml", ".png": "image/png", ".mp4": "video/mp4"}


def picture(path: Path, caption: str) -> str:
    """A figure with the image embedded."""
    return _figure(path.suffix, path.read_bytes(), caption)


def diagnostics(runs: Sequence[Run]) -> str:
    """Every RUN/diagnostics/*/section.json."""
    text = ""
    for run in runs:
        for name in files.names_in(run.path, "diagnostics"):
            place = f"diagnostics/{name}"
            if "section.json" not in files.names_in(run.path, place):
                continue
            try:
                text += _section(run, place)
            except (OSError, RunError) as error:
                text += _note(f"{run.name}: {place} cannot be shown: {error}")
    return text


def videos(runs: Sequence[Run], out: Path) -> str:
    """The newest video of each run: embedded where it is small, else a link relative to the page."""
    text, left = "", PAGE_BYTES
    for run in runs:
        names = [f"video/{name}" for name in files.names_in(run.path, "video") if _is_video(name)]
        found = [name for name in names if files.is_inside(run.path, name)]
        try:
            newest = max(found, key=lambda name: ((run.path / name).stat().st_mtime, name), default=None)
            if newest is None:
                continue
            size = (run.path / newest).stat().st_size
            shown = _video(run.path, newest, out, size if size < VIDEO_BYTES and size <= left else None)
        except OSError as error:
            text += _note(f"{run.name}: its video cannot be shown: {error}")
            continue
        left -= size if shown.startswith("<video") else 0
        caption = f"{run.curve.method}, {run.curve.task}, seed {run.seed}: {newest.removeprefix('video/')}"
        text += f"<figure>{shown}<figcaption>{_escaped(caption)}</figcaption></figure>"
    return text and f"<div class=videos>{text}</div>"


def provenance(runs: Sequence[Run], out: Path) -> str:
    """The state, the exact config and the command of each run; the configs are files in out/configs."""
    folder = out / "configs"
    folder.mkdir(parents=True, exist_ok=True)
    text = ""
    for run in runs:
        name = f"{file_name(run.path.resolve().name)}.json"
        (folder / name).write_text(run.config_text, encoding="utf-8")
        command = shlex.join(["pamd", "train", "--config", f"configs/{name}"])
        state = f"finished, {run.budget:,} decisions" if run.finished else run.progress
        confirmed = f"confirmed by {run.verified}" if run.verified else "not confirmed: nothing in the directory can"
        text += (
            f"<details><summary>{_escaped(f'{run.name} ({state})')}</summary><pre>{_escaped(command)}</pre>"
            f"{_note(f'This config is {confirmed}.')}<pre>{_escaped(run.config_text)}</pre></details>"
        )
    if len(runs) > _LISTED:
        text = f"<details><summary>All {len(runs)} runs</summary>{text}</details>"
    return f"<p class=note>Run the commands in the directory of this page.</p>{text}"


def unreadable(found: Sequence[Unreadable]) -> str:
    """The directories that do not count, with the reasons."""
    items = "".join(f"<li><code>{_escaped(str(one.path))}</code>: {_escaped(one.reason)}</li>" for one in found)
    return items and f"<ul>{items}</ul>"


def _section(run: Run, place: str) -> str:
    section: Section = parse_section(files.read(run.path, f"{place}/section.json"), f"{run.path / place}")
    text = f"<h3>{_escaped(section.title)}: {_escaped(run.name)}</h3>"
    text += "".join(f"<p>{_escaped(paragraph)}</p>" for paragraph in section.paragraphs)
    text += "".join(table.html() for table in section.tables)
    for figure in section.figures:
        drawn = [f"{place}/{figure.file}{suffix}" for suffix in (".svg", ".png")]
        present = [name for name in drawn if files.is_inside(run.path, name)]
        if not present:
            raise RunError(f"{run.path / place} has no figure {figure.file!r}, as SVG or PNG")
        # Drawings with very many points are smaller as PNG.
        contents = {name: files.read(run.path, name) for name in present}
        smallest = min(present, key=lambda name: len(contents[name]))
        text += _figure(Path(smallest).suffix, contents[smallest], figure.caption)
    return text


def _is_video(name: str) -> bool:
    return name.endswith(".mp4") and not name.startswith(".")


def _video(run: Path, name: str, out: Path, embedded: int | None) -> str:
    """A video of a run: `embedded` is its size, or None for a link."""
    if embedded is not None:
        source = _inline(".mp4", files.read(run, name))
        return f'<video controls loop muted playsinline preload=auto src="{source}"></video>'
    address = quote(os.fsencode(Path(os.path.relpath(run / name, out)).as_posix()))
    return f'<a href="{address}">video of {(run / name).stat().st_size / 1e6:.1f} MB</a>'


def _figure(suffix: str, data: bytes, caption: str) -> str:
    text = _escaped(caption)
    return f'<figure><img alt="{text}" src="{_inline(suffix, data)}"><figcaption>{text}</figcaption></figure>'


def _inline(suffix: str, data: bytes) -> str:
    return f"data:{_TYPES[suffix]};base64,{base64.b64encode(data).decode()}"


def _note(text: str) -> str:
    return f"<p class=note>{_escaped(text)}</p>"


def _escaped(text: str) -> str:
    """`text` for the page: printable, except for its line breaks, and without markup."""
    return html.escape("\n".join(str(printable(line)) for line in text.split("\n")))
