"""`pamd report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from pamd import published
from pamd.cli.console import print_text
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
    """Write one self-contained HTML page about runs, with figures, tables (CSV, LaTeX) and configs beside it.

    Args:
        runs: run directories, or directories of them.
        out: the directory of index.html, figures/, tables/ and configs/.
        paper: which of the paper's numbers to show beside ours: table1, fig1-dbc, fig1-independent, fig-diagonal,
            fig-trace, fig-video, fig-mlp, table-reference, table-flops, table-scaling.
    """
    check_directory(out, "--out")
    numbers = [row for name in paper for row in published.load(name)]
    print_text(f"{page.build(runs, out, title=title, published=numbers)}")
