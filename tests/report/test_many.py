"""A page on many runs shows summaries, and the files beside it have every number."""

from __future__ import annotations

import csv
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.report.runs import write_run

from pamd.report import comparison, page
from pamd.report.summary import _UNFOLDED


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two methods with four seeds; one seed is unfinished, and one warned in training."""
    for method, gain in (("dbc-det", 0.0), ("dbc-det+pamd", 100.0)):
        for seed in range(4):
            values = [0.0, 10.0 * seed + gain, -20.0 * seed + gain]
            write_run(tmp_path / "runs", method, seed, values[:2] if (method, seed) == ("dbc-det", 3) else values)
    (warned,) = (tmp_path / "runs").glob("*dbc-det_s0_*")
    row = {"decisions": 500, "effective_rank": 1.2}
    (warned / "train.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path


def build(root: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> str:
    monkeypatch.setattr(comparison, "_MANY", most)
    return page.build([root / "runs"], root / "out").read_text()


def series(text: str) -> dict[str, dict[str, Any]]:
    (data,) = re.findall(r'id="data">(.*?)</script>', text)
    (panel,) = json.loads(data)["panels"]
    return {one["label"]: one for one in panel["series"]}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_quartiles_stand_for_the_seeds(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = series(build(root, monkeypatch, most=7))
    low, median, high = ([point[4] for point in line] for line in found["dbc-det+pamd"]["seeds"])
    assert (low, median, high) == ([0.0, 107.5, 55.0], [0.0, 115.0, 70.0], [0.0, 122.5, 85.0])
    # The seed that ended after 1000 decisions is not carried on.
    assert [line[-1][4] for line in found["dbc-det"]["seeds"]] == [-30.0, -20.0, -10.0]
    assert found["dbc-det"]["points"][-1][6] == 3
    few = series(build(root, monkeypatch, most=8))
    assert [len(one["seeds"]) for one in few.values()] == [4, 4]
    assert {name: one["points"] for name, one in few.items()} == {name: one["points"] for name, one in found.items()}


def test_each_run_has_a_row_with_its_state_evidence_and_config(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = build(root, monkeypatch, most=7)
    assert "random_decisions" not in text  # no config is on the page
    assert "quartiles and median of the seeds" in text
    links = re.findall(r'<tr id=run-\S+?><td class=name><a href="(configs/\S+?)">', text)
    assert len(set(links)) == 8
    for link in links:
        assert json.loads((root / "out" / link.replace("%2B", "+")).read_text())["layout"] == 3
    assert "<td>unfinished at 1,000 of 2,000 decisions<td>nothing<td>" in text
    assert "<td>collapse at decision 500\n" in text.replace("<tr", "\n<tr")
    few = build(root, monkeypatch, most=8)
    assert few.count("random_decisions") == 8
    assert "each seed" in few


@pytest.mark.parametrize("most", [7, 8])
def test_the_files_beside_the_page_have_all_runs_and_evaluations(
    root: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    text = build(root, monkeypatch, most)
    assert 'href="data/runs.csv"' in text
    assert 'href="data/evaluations.csv"' in text
    runs, evaluations = rows(root / "out/data/runs.csv"), rows(root / "out/data/evaluations.csv")
    assert [(run["method"], run["seed"]) for run in runs] == [
        (method, str(seed)) for method in ("dbc-det", "dbc-det+pamd") for seed in range(4)
    ]
    assert [run["return"] for run in runs] == ["0", "-20", "-40", "30", "100", "80", "60", "40"]
    assert [run["decisions"] for run in runs] == ["2000"] * 3 + ["1000"] + ["2000"] * 4
    assert runs[0]["warnings"].startswith("collapse at decision 500: the latents of a batch have effective rank 1.20")
    assert all((root / "out" / run["config"]).is_file() for run in runs)
    assert len(evaluations) == 3 * 8 - 1
    last = evaluations[5]
    assert (last["seed"], last["decisions"], last["frames"], last["updates"]) == ("1", "2000", "16000", "2000")
    assert (last["return"], json.loads(last["returns"]), float(last["minutes"])) == (
        "-20",
        [-21.0, -19.0],
        pytest.approx(200 / 60, rel=1e-5),
    )


def test_a_run_without_an_evaluation_has_a_row_without_numbers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "runs" / "new").mkdir()
    new = write_run(root / "runs" / "new", "dbc-det", 9)
    (new / "eval.jsonl").unlink()
    build(root, monkeypatch, most=7)
    (row,) = (run for run in rows(root / "out/data/runs.csv") if run["seed"] == "9")
    assert (row["decisions"], row["return"], row["budget"]) == ("", "", "2000")


def test_backgrounds_of_further_evaluations_are_columns(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs")
    lines = [json.loads(line) for line in (run / "eval.jsonl").read_text().splitlines()]
    lines[-1] |= {"elsewhere": {"hard": {"returns": [3.0, 5.0]}}, "unseen_returns": [7.0]}
    (run / "eval.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page.build([run], tmp_path / "out")
    found = rows(tmp_path / "out/data/evaluations.csv")
    assert [(row["return on hard"], row["unseen return"]) for row in found] == [("", ""), ("", ""), ("4", "7")]


def test_a_long_curve_has_few_points_on_the_page_and_all_in_the_file(tmp_path: Path) -> None:
    values = [float(step) for step in range(1001)]
    run = write_run(tmp_path / "runs", values=values, every=2, timing=False)
    (one,) = series(page.build([run], tmp_path / "out").read_text()).values()
    shown = [point[4] for point in one["points"]]
    assert len(shown) == page._POINTS
    assert (shown[0], shown[-1]) == (0.0, 1000.0)
    assert max(after - before for before, after in itertools.pairwise(shown)) <= 3
    assert len(rows(tmp_path / "out/data/evaluations.csv")) == 1001


def test_many_notices_are_collapsed(tmp_path: Path) -> None:
    for seed in range(_UNFOLDED + 2):
        run = write_run(tmp_path / "runs", seed=seed)
        with (run / "eval.jsonl").open("a") as file:
            file.write("{")
    text = page.build([tmp_path / "runs"], tmp_path / "out").read_text()
    notices = text[text.index("Please note") : text.index("<nav")]
    first, rest = notices.split("<details>")
    assert (first.count("<li>"), rest.count("<li>")) == (_UNFOLDED, 2)
    assert "<summary>2 more notices</summary>" in rest


def test_many_runs_show_the_videos_of_one_seed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for run in (root / "runs").iterdir():
        (run / "video").mkdir()
        (run / "video" / "000002000.mp4").write_bytes(b"video")
    text = build(root, monkeypatch, most=7)
    assert text.count("<video") == 2
    assert "The videos of 3 more seeds are in the run directories." in text
    assert build(root, monkeypatch, most=8).count("<video") == 8
