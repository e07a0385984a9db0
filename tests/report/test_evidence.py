"""The evidence in results/ agrees with its run directories and with its pages."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from tests.scripts import load_script

from pamd import published
from pamd.cli.reproduce import reproduce
from pamd.report import page
from pamd.report.load import load_runs

HERE = Path(__file__).parents[2]
EVIDENCE = HERE / "results" / "evidence"
VERDICTS = HERE / "results" / "verdicts"


def test_the_tables_of_the_earlier_runs_are_made_of_them_and_the_text_quotes_them(tmp_path: Path) -> None:
    beside = [row for name in ("table1", "fig1-independent") for row in published.load(name)]
    page.build([EVIDENCE / "runs"], tmp_path, published=beside)
    tables = sorted((EVIDENCE / "tables").glob("*.csv"))
    assert tables
    for table in tables:
        assert (tmp_path / "tables" / table.name).read_text() == table.read_text()
    text = (HERE / "docs" / "earlier-runs.md").read_text()
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


def test_the_tables_of_the_verdicts_are_made_of_their_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", _empty_picture)  # Only the tables are compared.
    reproduce("verdicts", report_only=True, runs=VERDICTS / "runs", out=tmp_path)
    committed = {path.relative_to(VERDICTS / "tables") for path in (VERDICTS / "tables").rglob("*.csv")}
    assert committed == {path.relative_to(tmp_path) for path in tmp_path.rglob("*.csv")}
    differing = [
        name for name in committed if (tmp_path / name).read_text() != (VERDICTS / "tables" / name).read_text()
    ]
    assert differing == []


def _empty_picture(_: Any, path: Path, **options: object) -> None:
    path.write_text("<svg></svg>")


def test_the_page_shows_the_tables_of_the_verdicts() -> None:
    text = (HERE / "docs" / "evidence.md").read_text()
    assert "<!-- table verdicts -->" in text
    assert load_script("tools/evidence.py").filled(text) == text


def test_every_run_of_the_verdicts_is_finished() -> None:
    runs = load_runs([VERDICTS / "runs"])
    assert [run.name for run in runs if not run.finished] == []
    states = [run for run in runs if run.curve.task.startswith("state:")]
    pixels = [run for run in runs if not run.curve.task.startswith(("state:", "toy:"))]
    assert len(states) >= 160
    assert len(pixels) >= 40
