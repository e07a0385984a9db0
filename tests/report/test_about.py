"""The summary at the top of the page: comparison, result, certainty and dates."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.report.runs import write_run

from pamd.report.comparison import Comparison, compare
from pamd.report.page import build
from pamd.report.run import load_runs
from pamd.report.summary import about, findings

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def compared(root: Path) -> Comparison:
    return compare(load_runs([root]))


def entries(root: Path) -> dict[str, str]:
    """The text of each entry of the summary."""
    found = re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", about(compared(root), NOW))
    return {name: html.unescape(re.sub("<.*?>", "", body)) for name, body in found}


def write_pair(root: Path, differences: list[float]) -> None:
    """dbc-det and dbc-det+pamd, whose returns differ by `differences`, one for each seed."""
    for seed, difference in enumerate(differences):
        write_run(root, "dbc-det", seed, [0, 0, 100.0])
        write_run(root, "dbc-det+pamd", seed, [0, 0, 100.0 + difference])


@pytest.mark.parametrize(
    ("differences", "says"),
    [
        ([100, 110, 120], "dbc-det+pamd scores higher than dbc-det: difference 110.0 [85.2, 134.8], p = 0.003"),
        ([-100, -110, -120], "dbc-det+pamd scores lower than dbc-det: difference -110.0 [-134.8, -85.2], p = 0.003"),
        ([-50, 10, 70], "dbc-det+pamd or dbc-det: undecided: difference 10.0 [-139.0, 159.0], p = 0.800"),
    ],
)
def test_the_answer_is_a_sentence_with_an_interval(tmp_path: Path, differences: list[float], says: str) -> None:
    write_pair(tmp_path, differences)
    found = entries(tmp_path)
    assert found["Answer"].startswith(f"{says}, 3 paired seeds on cheetah_run")
    assert ("Undecided does not mean equal" in found["How sure"]) == ("undecided" in says)


def test_what_was_compared_and_when(tmp_path: Path) -> None:
    write_pair(tmp_path, [1, 2])
    (first, *_) = sorted(tmp_path.iterdir())
    (first / "status.json").write_text(json.dumps({"state": "finished", "time": 86400.0}))
    found = entries(tmp_path)
    assert found["Compared"] == (
        "dbc-det and dbc-det+pamd on cheetah_run: 4 runs, 2 seeds, 2k decisions per run."
        " Fidelity: released. Scale: cpu."
    )
    assert found["When"].startswith("The runs ended on 1970-01-02 (UTC). The dates of 3 of 4 runs are not known. pamd ")
    assert " wrote this page on 2026-01-31 " in found["When"]


def test_without_two_shared_seeds_there_is_no_answer(tmp_path: Path) -> None:
    write_pair(tmp_path, [100])
    write_run(tmp_path, "dbc-det", 1)
    write_run(tmp_path, "dbc-det+pamd", 2)
    assert findings(compared(tmp_path), "cpu") == []
    assert entries(tmp_path)["Answer"].startswith("None yet")
    assert entries(tmp_path)["How sure"].startswith("Unknown: a single seed")


def test_only_plug_in_pairs_are_tested_where_there_are_any_and_p_is_corrected_for_them(tmp_path: Path) -> None:
    write_pair(tmp_path, [100, 110, 120])
    (alone,) = findings(compared(tmp_path), "cpu")
    for seed in range(3):
        write_run(tmp_path, "simsr", seed, [0, 0, 50.0])
        write_run(tmp_path, "simsr+pamd", seed, [0, 0, 50.0 + 3 * seed])
    first, second = findings(compared(tmp_path), "cpu")
    assert [(one.first.label, one.second.label) for one in (first, second)] == [
        ("dbc-det+pamd", "dbc-det"),
        ("simsr+pamd", "simsr"),
    ]
    assert first.corrected == pytest.approx(2 * alone.corrected)
    assert second.corrected == second.effect.p_value


def test_many_methods_are_counted_instead_of_named(tmp_path: Path) -> None:
    for index in range(8):
        write_run(tmp_path, f"method-{index}", 0)
    names = entries(tmp_path)["Compared"].split(" on ")[0]
    assert names == "method-0, method-1, method-2, method-3, method-4 and 3 more"


def test_warnings_of_training_are_on_the_page(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "runs", "simsr+pamd", seed) for seed in (0, 1)]
    meters = {"kind": "update", "effective_rank": 9.0, "reach_missed": 0.23, "reach_largest": 2.0}
    rows = [{**meters, "decisions": 400, "reach_missed": 0.0}, *({**meters, "decisions": at} for at in (500, 600))]
    (runs[0] / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (runs[1] / "train.jsonl").write_text(json.dumps({**rows[0], "reach_missed": "<b>much</b>"}) + "\n")
    timing = [{"decisions": 1000, "seconds": 9.0, "warning": "threads: the load is <b>9</b>. Use --threads 1"}]
    (runs[1] / "timing.jsonl").write_text("".join(json.dumps(row) + "\n" for row in timing))
    page = build([tmp_path / "runs"], tmp_path / "out").read_text()
    notices = page[page.index("Please note") : page.index("<nav")]
    assert f"Warned in training, reach (1 of 2 runs): {runs[0].name}, at decision 500: 23% of the targets" in notices
    assert f"{runs[1].name}, at decision 1,000: the load is &lt;b&gt;9" in notices
    assert "reach, at decision 500: 23%" in page[page.index('<section id="runs"') :]
    assert "<b>" not in page


def test_a_damaged_log_of_training_is_a_notice(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs", "simsr+pamd")
    (run / "train.jsonl").write_text("{\n[1]\n")
    assert "the warnings of train.jsonl cannot be read" in build([run], tmp_path / "out").read_text()
