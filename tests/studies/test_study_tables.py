"""Every published table of a study follows from its data, and the pages show the tables."""

from __future__ import annotations

import csv
from pathlib import Path

from studies.verdicts import analysis
from tests.scripts import load_script

from pamd import published
from pamd.report import page
from pamd.report.load import load_runs

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "results" / "evidence"


def assert_same_tables(made: Path, committed: Path) -> None:
    names = {path.relative_to(committed) for path in committed.rglob("*.csv")}
    assert names
    assert names == {path.relative_to(made) for path in made.rglob("*.csv")}
    assert [name for name in sorted(names) if (made / name).read_text() != (committed / name).read_text()] == []


def test_the_tables_of_the_verdicts_follow_from_the_data(tmp_path: Path) -> None:
    analysis.write(tmp_path, figures=False)
    assert_same_tables(tmp_path / "tables", analysis.HERE / "tables")


def test_the_page_shows_the_tables_of_the_verdicts() -> None:
    text = (ROOT / "docs" / "evidence.md").read_text()
    assert "<!-- table verdicts -->" in text
    assert load_script("tools/evidence.py").filled(text) == text


def test_every_run_of_the_verdicts_is_finished_and_belongs_to_a_rung() -> None:
    runs = load_runs([analysis.RUNS])
    assert [run.name for run in runs if not run.finished] == []
    table = analysis.cost()
    assert [row[:2] for row in table.rows] == [["toy", 50], ["states", 390], ["pixels", 100]]
    assert len(runs) == 540


def test_the_tables_of_the_earlier_runs_are_made_of_them_and_the_text_quotes_them(tmp_path: Path) -> None:
    beside = [row for name in ("table1", "fig1-independent") for row in published.load(name)]
    page.build([EVIDENCE / "runs"], tmp_path, published=beside)
    tables = sorted((EVIDENCE / "tables").glob("*.csv"))
    assert tables
    for table in tables:
        assert (tmp_path / "tables" / table.name).read_text() == table.read_text()
    text = (ROOT / "docs" / "earlier-runs.md").read_text()
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
