"""The evidence in results/ agrees with its run directories and with its page."""

from __future__ import annotations

import csv
from pathlib import Path

from pamd import published
from pamd.report import page
from pamd.report.load import load_runs

HERE = Path(__file__).parents[2]
EVIDENCE = HERE / "results" / "evidence"


def test_the_tables_are_made_of_the_runs_and_the_text_quotes_them(tmp_path: Path) -> None:
    beside = [row for name in ("table1", "fig1-independent") for row in published.load(name)]
    page.build([EVIDENCE / "runs"], tmp_path, published=beside)
    tables = sorted((EVIDENCE / "tables").glob("*.csv"))
    assert tables
    for table in tables:
        assert (tmp_path / "tables" / table.name).read_text() == table.read_text()
    text = (HERE / "docs" / "evidence.md").read_text()
    with (EVIDENCE / "tables" / "returns-cpu.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = [column.removesuffix(" mean") for column in rows[0] if column.endswith(" mean")]
    quoted = [
        f"{float(row[f'{name} mean']):.1f} ± {float(row[f'{name} standard error']):.1f}"
        for row in rows
        for name in names
        if row[f"{name} mean"]
    ]
    assert len(quoted) == 4
    assert [number for number in quoted if number not in text] == []


def test_the_page_quotes_the_runs_from_pixels_of_the_verdicts() -> None:
    text = (HERE / "docs" / "evidence.md").read_text()
    found = [
        run
        for run in load_runs([HERE / "results" / "verdicts" / "runs"])
        if not run.curve.task.startswith("state:") and run.finished
    ]
    assert len(found) >= 10
    assert [run.name for run in found if f"{run.score:.1f}" not in text] == []
