"""`pamd report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from pamd import published
from pamd.durable import check_directory
from pamd.report import page

__all__ = ["report"]


def report(
    runs: Annotated[list[Path], tyro.conf.Positional],
    /,
    *,
    out: Path = Path("report"),
    paper: tuple[str, ...] = (),
    title: str = "pamd report",
) -> None:
    """Write one self-contained HTML page about runs; figures, tables (CSV, LaTeX) and configs beside it.

    Args:
        runs: run directories, or directories of them.
        out: where index.html, figures/, tables/ and configs/ go.
        paper: which of the paper's numbers stand beside: table1, fig1-dbc, fig1-independent, fig-diagonal, fig-trace,
            fig-video, fig-mlp, table-reference, table-flops, table-scaling.
    """
    check_directory(out, "--out")
    beside = [row for name in paper for row in published.load(name)]
    written = page.build(runs, out, title=title, published=beside)
    Console(stderr=True).print(f"{written}", highlight=False, soft_wrap=True)
