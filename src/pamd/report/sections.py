"""The parts of the page that show files of the runs as they are: diagnostics, videos, configs."""

from __future__ import annotations

import base64
import html
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from pamd.errors import RunError
from pamd.report.diagnosed import Section, read_section
from pamd.report.load import Run

__all__ = ["diagnostics", "picture", "provenance", "videos"]

VIDEO_BYTES = 1_000_000
"""The page links a larger video instead of embedding it."""
PAGE_BYTES = 20_000_000
"""Once the page embeds this many bytes of videos, it links the others."""

_LISTED = 12
"""The page folds a longer list of runs."""

_TYPES = {".svg": "image/svg+xml", ".png": "image/png", ".mp4": "video/mp4"}


def picture(path: Path, caption: str) -> str:
    """A figure with the image embedded."""
    text = html.escape(caption)
    return f'<figure><img alt="{text}" src="{_inline(path)}"><figcaption>{text}</figcaption></figure>'


def diagnostics(runs: Sequence[Run]) -> str:
    """Every RUN/diagnostics/*/section.json."""
    text = ""
    for run in runs:
        for file in sorted(run.path.glob("diagnostics/*/section.json")):
            text += _section(read_section(file.parent), file.parent, run)
    return text


def videos(runs: Sequence[Run], out: Path) -> str:
    """The newest video of each run: embedded where it is small, else a link relative to the page."""
    text, left = "", PAGE_BYTES
    for run in runs:
        found = [path for path in run.path.glob("video/*.mp4") if not path.name.startswith(".")]
        if not found:
            continue
        newest = max(found, key=lambda path: (path.stat().st_mtime, path.name))
        caption = html.escape(f"{run.curve.method}, {run.curve.task}, seed {run.seed}: {newest.name}")
        size = newest.stat().st_size
        if size < VIDEO_BYTES and size <= left:
            left -= size
            shown = f'<video controls loop muted playsinline preload=auto src="{_inline(newest)}"></video>'
        else:
            address = quote(Path(os.path.relpath(newest, out)).as_posix())
            shown = f'<a href="{address}">video of {size / 1e6:.1f} MB</a>'
        text += f"<figure>{shown}<figcaption>{caption}</figcaption></figure>"
    return text and f"<div class=videos>{text}</div>"


def provenance(runs: Sequence[Run], out: Path) -> str:
    """The state, the exact config and the command of each run; the configs are files in out/configs."""
    folder = out / "configs"
    folder.mkdir(parents=True, exist_ok=True)
    text = ""
    for run in runs:
        config = (run.path / "config.json").read_text("utf-8")
        name = f"{run.path.resolve().name}.json"
        (folder / name).write_text(config, encoding="utf-8")
        command = shlex.join(["pamd", "train", "--config", f"configs/{name}"])
        state = f"finished, {run.budget:,} decisions" if run.finished else run.progress
        title = f"{run.path.resolve().name} ({state})"
        text += (
            f"<details><summary>{html.escape(title)}</summary><pre>{html.escape(command)}</pre>"
            f"<pre>{html.escape(config)}</pre></details>"
        )
    if len(runs) > _LISTED:
        text = f"<details><summary>All {len(runs)} runs</summary>{text}</details>"
    return f"<p class=note>Run the commands in the directory of this page.</p>{text}"


def _section(section: Section, directory: Path, run: Run) -> str:
    text = f"<h3>{html.escape(section.title)}: {html.escape(run.path.resolve().name)}</h3>"
    text += "".join(f"<p>{html.escape(paragraph)}</p>" for paragraph in section.paragraphs)
    text += "".join(table.html() for table in section.tables)
    for figure in section.figures:
        # Drawings with very many points are smaller as PNG.
        drawn = [directory / f"{figure.file}{suffix}" for suffix in (".svg", ".png")]
        present = [path for path in drawn if path.is_file()]
        if not present:
            raise RunError(f"{directory} has no figure {figure.file!r}, as SVG or PNG")
        text += picture(min(present, key=lambda path: path.stat().st_size), figure.caption)
    return text


def _inline(path: Path) -> str:
    return f"data:{_TYPES[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"
