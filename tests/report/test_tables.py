"""The content of tables, and numbers that must not be shown."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.report.runs import DEMO, write_run

from pamd import published
from pamd.errors import RunError
from pamd.report import page, tables
from pamd.report.comparison import Comparison, compare, of_success
from pamd.report.figures import mean_curve
from pamd.report.run import load_runs
from pamd.report.statistics import Estimate, Mean
from pamd.table import Table


def compared(root: Path) -> Comparison:
    return compare(load_runs([root]))


def rows(table: Table | None) -> list[dict[str, str]]:
    """The rows as the page shows them."""
    assert table is not None
    (body,) = re.findall("<tbody>(.*?)</tbody>", table.html())
    cells = [re.findall("<td.*?>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", body)]
    return [dict(zip(table.columns, map(html.unescape, row), strict=True)) for row in cells]


def numbers(table: Table | None) -> list[dict[str, str]]:
    """The rows of the CSV file."""
    assert table is not None
    return list(csv.DictReader(io.StringIO(table.csv())))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Three seeds of two methods on two tasks; one seed is unfinished, one is missing."""
    for task in ("cheetah_run", "walker_walk"):
        for seed in range(3):
            write_run(tmp_path, "dbc-det+pamd", seed, [0, 200, 400 + 30 * seed], env__task=task)
    for seed in range(3):
        write_run(tmp_path, "dbc-det", seed, [0, 150, 300 + 20 * seed], env__task="cheetah_run")
    write_run(tmp_path, "dbc-det", 0, [0, 100, 500], env__task="walker_walk")
    write_run(tmp_path, "dbc-det", 1, [0, 900], env__task="walker_walk")
    return tmp_path


def test_the_summary_has_the_budget_in_three_units(sweep: Path) -> None:
    table = tables.summary(compared(sweep), rng())
    first, _, third, _ = rows(table)
    assert (first["task"], first["method"], first["fidelity"], first["scale"]) == (
        "cheetah_run", "dbc-det", "released", "cpu"
    )  # fmt: skip
    assert (first["decisions"], first["frames"], first["updates"]) == ("2,000", "16,000", "2,000")
    assert first["return"] == "320.0 ± 11.5 (n=3)"
    exact = numbers(table)[0]
    assert (exact["return mean"], exact["return standard error"], exact["return n"]) == ("320", "11.547", "3")
    assert (exact["decisions"], exact["frames"], exact["updates"]) == ("2000", "16000", "2000")
    assert third["seeds"] == "1 of 3"
    assert third["return"] == "500.0 (n=1)"  # one seed: no error rather than ± 0
    exact = numbers(table)[2]
    assert (exact["return mean"], exact["return standard error"], exact["return n"]) == ("500", "", "1")
    assert (exact["seeds"], exact["seeds planned"]) == ("1", "3")
    assert any("seed 1 unfinished at 1,000 of 2,000 decisions; seed 2 missing" in note for note in table.notes)


def test_the_paper_s_number_is_next_to_ours_with_what_differs(sweep: Path) -> None:
    table = tables.compared_table(compared(sweep), published.load("table1"))
    first, second = rows(table)  # the paper has no walker_walk in this table
    assert (first["task"], first["method"], first["return"]) == ("cheetah_run", "dbc-det", "320.0 ± 11.5 (n=3)")
    assert (first["paper"], second["paper"]) == ("350 ± 60", "524 ± 14")
    assert first["paper's budget"] == "1M decisions, 4M frames, 1M updates"
    assert (
        first["same budget and scale?"] == "no: cpu scale here, 2k decisions here, action repeat 8 here, 4 in the paper"
    )
    assert first["paper's source"] == "Table 1"
    exact = numbers(table)[0]
    assert (exact["return mean"], exact["return standard error"], exact["return n"]) == ("320", "11.547", "3")
    assert (exact["paper mean"], exact["paper error"]) == ("350", "60")
    assert tables.compared_table(compared(sweep), published.load("fig-video")) is None


def test_no_number_of_the_paper_shows_a_label_of_its_source() -> None:
    for name in published.names():
        for row in published.load(name):
            assert re.search(r"(Table|Figure) [1-7]", tables.place(row.source))
            assert not re.search("tab:|fig:", tables.place(f"{row.source} {row.note}"))


def test_small_returns_are_not_nothing(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path, "dbc-det", seed, [0, 0, 0.02 + 0.01 * seed])
    (row,) = rows(tables.summary(compared(tmp_path), rng()))
    assert row["return"] == "0.025 ± 0.005 (n=2)"
    assert row["IQM"].startswith("0.025")


def test_a_run_in_the_paper_s_setting_is_said_to_be_in_it(tmp_path: Path) -> None:
    write_run(tmp_path, values=[0.0, 5.0], every=1_000_000, decisions=1_000_000, env__action_repeat=4, scale="paper")
    (row,) = rows(tables.compared_table(compared(tmp_path), published.load("table1")))
    assert row["same budget and scale?"] == "yes"


def test_a_variant_is_not_taken_for_the_paper_s_method(tmp_path: Path) -> None:
    plain = write_run(tmp_path, "dbc-det+pamd", env__task="finger_spin")
    option = {"method__distance__options__trace_normalized": False}
    variant = write_run(tmp_path, "dbc-det+pamd", env__task="finger_spin", **option)
    runs, numbers = load_runs([tmp_path]), published.load("fig-trace")
    found = rows(tables.compared_table(compare(runs), numbers))
    assert [row["paper"] for row in found] == ["≈860", "≈860"]
    assert all("a variant of the method here" in row["same budget and scale?"] for row in found)
    named = {"dbc-det+pamd": [plain], "dbc-det+pamd (no trace)": [variant]}
    found = rows(tables.compared_table(compare(runs, named), numbers))
    assert [row["paper"] for row in found] == ["≈860", "≈705"]
    assert not any("variant" in row["same budget and scale?"] for row in found)


def test_a_video_result_is_never_beside_a_plain_one(tmp_path: Path) -> None:
    write_run(tmp_path, seed=0)
    run = write_run(tmp_path, seed=0, env__distractor={"name": "video-hard", "source": "video"})
    write_run(tmp_path, seed=0, env__distractor={"name": "static", "source": "noise"})
    lines = [
        json.loads(line) | {"unseen_returns": [3.0, 5.0]} for line in (run / "eval.jsonl").read_text().splitlines()
    ]
    (run / "eval.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = rows(tables.summary(compared(tmp_path), rng()))
    assert [(row["task"], row["return, unseen backgrounds"]) for row in found] == [
        ("cheetah_run", "—"),
        ("cheetah_run + static", "—"),
        ("cheetah_run + video-hard", "4.0 (n=1)"),
    ]
    beside = [*published.load("table1"), *published.load("fig-video")]
    found = rows(tables.compared_table(compared(tmp_path), beside))
    assert [(row["task"], row["paper"]) for row in found] == [
        ("cheetah_run", "350 ± 60"),
        ("cheetah_run + video-hard", "≈248"),
    ]
    assert found[1]["paper's budget"].startswith("1M decisions")


def test_noise_is_part_of_the_task_and_its_unseen_returns_are_named(tmp_path: Path) -> None:
    write_run(tmp_path, env__task="state:cheetah_run")
    run = write_run(tmp_path, env__task="state:cheetah_run", env__noise={"name": "projected", "deviation": 2.0})
    lines = [json.loads(line) | {"unseen_returns": [3.0]} for line in (run / "eval.jsonl").read_text().splitlines()]
    (run / "eval.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = rows(tables.summary(compared(tmp_path), rng()))
    assert [(row["task"], row["return, unseen noise"]) for row in found] == [
        ("state:cheetah_run", "—"),
        ("state:cheetah_run + projected noise", "3.0 (n=1)"),
    ]
    assert [setting.best for setting in compared(tmp_path).settings] == [1000.0, 1000.0]


def test_many_methods_are_rows_so_that_the_grid_fits_on_the_page(tmp_path: Path) -> None:
    for index in range(7):
        write_run(tmp_path, f"method-{index}", 0, [0, 0, float(index)])
    found = rows(tables.returns(compared(tmp_path), "cpu"))
    assert [row["method"] for row in found] == [f"method-{index} (released fidelity)" for index in range(7)]
    assert [row["cheetah_run (2k)"] for row in found[:3]] == ["0.000 (n=1)", "1.0 (n=1)", "2.0 (n=1)"]


def test_the_layout_keeps_scales_apart_and_budgets_in_rows(sweep: Path) -> None:
    write_run(sweep, "dbc-det", 5, [0, 7.0], env__task="cheetah_run", decisions=1000)
    write_run(sweep, "dbc-det", 0, env__task="cheetah_run", scale="paper")
    found = compared(sweep)
    assert found.scales == ["cpu", "paper"]
    cpu = rows(tables.returns(found, "cpu"))
    assert [row["task (decisions)"] for row in cpu] == ["cheetah_run (1k)", "cheetah_run (2k)", "walker_walk (2k)"]
    assert cpu[0] == {
        "task (decisions)": "cheetah_run (1k)",
        "dbc-det (released fidelity)": "7.0 (n=1)",
        "dbc-det+pamd (released fidelity)": "—",
    }
    assert len(rows(tables.returns(found, "paper"))) == 1
    # cheetah_run at two budgets would count twice in an aggregate of dbc-det alone; with both methods it is one.
    assert len(tables.common(found, "cpu", found.columns)) == 2
    assert tables.common(found, "cpu", [found.columns[0]]) == []


def test_statistics_tables_by_hand(sweep: Path) -> None:
    found = compared(sweep)
    plain, pamd = rows(tables.aggregates(found, "cpu", rng()))
    assert (plain["tasks"], plain["runs"]) == ("2", "4")
    assert plain["IQM"] == "0.330"  # a task has one run, so there is no interval; the middle two of .30 .32 .34 .50
    assert pamd["IQM"].startswith("0.430 [")
    (chance,) = rows(tables.improvement(found, "cpu", rng()))
    assert chance["pair"] == "dbc-det+pamd > dbc-det"
    assert chance["probability"] == "0.50"  # always on cheetah_run, never on walker_walk
    cheetah, walker = rows(tables.differences(found, "cpu"))
    # 100, 110, 120: mean 110, standard error 10/sqrt(3), t(2) = 4.303
    assert cheetah["difference in return"] == "110.0 [85.2, 134.8]"
    exact = numbers(tables.differences(found, "cpu"))[0]
    assert (exact["difference in return"], exact["difference in return low"]) == ("110", "85.1586")
    assert cheetah["paired seeds"] == "3"
    assert cheetah["seeds needed"] == "2"
    assert walker["difference in return"] == "-100.0"
    assert walker["seeds needed"] == "—"


def test_what_cannot_be_normalized_is_not_aggregated(tmp_path: Path) -> None:
    write_run(tmp_path, env__task="toy")
    write_run(tmp_path, "dbc-det+pamd", env__task="toy")
    found = compared(tmp_path)
    assert tables.aggregates(found, "cpu", rng()) is None
    assert tables.improvement(found, "cpu", rng()) is not None


def test_latex_escapes_what_latex_reads() -> None:
    table = Table("t", "50 % of a_b", ["a_b", "mean", "n"], [["x & y", Estimate(-1.0, -2.0, 3.0), Mean(1.0, 2.0, 4)]])
    text = table.latex()
    assert r"x \& y & -1.0 {[}-2.0, 3.0{]} & 1.0 $\pm$ 2.0 (n=4) \\" in text
    assert r"\caption{50 \% of a\_b.}" in text
    assert r"\begin{tabular}{lrr}" in text


def test_html_escapes_what_html_reads() -> None:
    text = Table("t", "<b>", ["a"], [["<script>alert(1)</script>"]], ["x < y"]).html()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_every_form_shows_the_same_values() -> None:
    table = Table("t", "T", ["a", "b", "c"], [["x", Mean(2.0, None, 1), 1234], [None, Mean(None, None, 0), None]])
    assert table.csv() == "a,b mean,b standard error,b n,c\nx,2,,1,1234\n,,,0,\n"
    assert table.text().splitlines() == ["a          b      c", "x  2.0 (n=1)  1,234", "—    — (n=0)      —"]
    assert rows(table) == [{"a": "x", "b": "2.0 (n=1)", "c": "1,234"}, {"a": "—", "b": "— (n=0)", "c": "—"}]
    assert table.records()[0] == {"a": "x", "b": "2.0 (n=1)", "c": 1234}
    again = Table.from_records("t", "T", table.records())
    assert (list(again.columns), again.records()) == (["a", "b", "c"], table.records())


def test_the_demo_s_table() -> None:
    found = rows(tables.returns(compared(DEMO), "cpu"))
    assert len(found) == 1
    assert set(found[0]) == {"task (decisions)", "dbc-det (released fidelity)", "dbc-det+pamd (released fidelity)"}


def test_success_is_in_the_table_with_an_interval_and_only_where_a_task_reports_it(tmp_path: Path) -> None:
    write_run(tmp_path / "runs")
    assert "success" not in rows(tables.summary(compared(tmp_path / "runs"), rng()))[0]
    assert "success" not in tables.records(compared(tmp_path / "runs"))[0]
    for seed, successes in ((0, [True, True]), (1, [False, True])):
        run = write_run(tmp_path / "runs", env__task="metaworld:reach-v3", seed=seed)
        lines = [json.loads(line) | {"successes": successes} for line in (run / "eval.jsonl").read_text().splitlines()]
        (run / "eval.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    comparison = compared(tmp_path / "runs")
    found = rows(tables.summary(comparison, rng()))
    assert [(row["task"], row["success"]) for row in found] == [
        ("cheetah_run", "—"),
        ("metaworld:reach-v3", "0.75 [0.30, 0.95]"),
    ]
    assert tables.records(comparison)[1]["success"]["low"] == pytest.approx(0.3006, abs=1e-4)
    shown = of_success(comparison)
    assert shown is not None
    assert [setting.task for setting in shown.settings] == ["metaworld:reach-v3"]
    assert mean_curve(shown.rows[0].runs).mean.tolist() == [0.75, 0.75, 0.75]
    page.build([tmp_path / "runs"], tmp_path / "page")
    assert (tmp_path / "page" / "figures" / "success-curves.svg").is_file()
    assert "Success rate of the evaluation episodes" in (tmp_path / "page" / "index.html").read_text()
    text = (run / "eval.jsonl").read_text()
    (run / "eval.jsonl").write_text(text.replace("[false, true]", '["no"]'))
    with pytest.raises(RunError, match=r"successes must be true or false for each episode, got \['no'\]"):
        compared(tmp_path / "runs")
