"""Every published table of a study follows from its data, and the pages show the tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies.pages import PAGES, filled

from pamd.errors import UnknownNameError
from pamd.report.run import load_runs
from studies import STUDIES, analysis

ROOT = Path(__file__).parents[2]
RUNS = {"demo": 4, "environments": 5, "family": 6, "learners": 8, "verdicts": 540}
"""The runs of each study. Those of `integrations` are not runs of `pamd train`."""


@pytest.mark.parametrize("name", STUDIES)
def test_the_tables_of_a_study_follow_from_its_data(name: str, tmp_path: Path) -> None:
    analysis(name).write(tmp_path, figures=False)
    made, committed = ({path.relative_to(folder): path.read_text() for path in folder.rglob("*.csv")}
                       for folder in (tmp_path / "tables", ROOT / "studies" / name / "tables"))  # fmt: skip
    assert committed
    assert made.keys() == committed.keys()
    assert [table for table in made if made[table] != committed[table]] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pages_show_the_tables(page: Path) -> None:
    text = page.read_text()
    assert filled(text) == text, "run `python -m studies`"


def test_the_pages_of_the_studies_are_found() -> None:
    assert {"evidence.md", "geometry.md", "performance.md"} <= {page.name for page in PAGES}
    with pytest.raises(UnknownNameError, match="Did you mean 'verdicts'"):
        analysis("verdict")


@pytest.mark.parametrize("name", RUNS)
def test_every_run_of_a_study_is_finished(name: str) -> None:
    runs = load_runs([ROOT / "studies" / name / "runs.parquet"])
    assert [run.name for run in runs if not run.finished] == []
    assert len(runs) == RUNS[name]


def test_figures_are_png_files_with_a_palette(tmp_path: Path) -> None:
    analysis("demo").write(tmp_path)
    (figure,) = (tmp_path / "figures").iterdir()
    data = figure.read_bytes()
    assert data[1:4] == b"PNG"
    assert data[25] == 3  # the color type of a palette
    assert len(data) < 60_000
