"""`pamd report`."""

from __future__ import annotations

from pathlib import Path

from pamd import published
from pamd.atomic_io import check_directory
from pamd.cli.console import print_text
from pamd.report import page
from pamd.report.comparison import compare_readable
from pamd.report.run import read_runs
from pamd.runs.files import printable


def report(
    runs: list[Path],
    /,
    *,
    out: Path = Path("report"),
    paper: tuple[str, ...] = (),
    title: str = "pamd report",
) -> None:
    """Write a self-contained HTML report on runs, with figures, tables (CSV, LaTeX) and configs in the same directory.

    A run that cannot be read, or whose config or logs were edited, is listed with the reason and excluded from all
    results. Edits are found as by `pamd verify`, with the digests in the newest checkpoint.

    Args:
        runs: run directories, or directories that contain them.
        out: output directory for index.html, figures/, tables/, data/ and configs/.
        paper: which of the paper's results to show for comparison: table1, fig1-dbc, fig1-independent, fig-diagonal,
            fig-trace, fig-video, fig-mlp, table-reference, table-flops, table-scaling.
    """
    check_directory(out, "--out")
    numbers = [row for name in paper for row in published.load(name)]
    comparison = compare_readable(read_runs(runs))
    written = page.write(comparison, out, title=title, published=numbers)
    for one in comparison.unreadable:
        print_text(f"not counted: {printable(one.reason)}")
    print_text(f"{written}", stderr=False)
