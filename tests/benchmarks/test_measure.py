"""Repetitions, ratios and operation counts of benchmarks. No test depends on a measured time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pamd.benchmarks import BENCHMARKS, flops, scaling
from pamd.benchmarks.measure import Options, interleave, limit, ratio, write_measured
from pamd.cli.main import main
from pamd.table import Table


def test_contenders_take_turns_and_the_first_turn_does_not_count() -> None:
    order: list[str] = []
    seconds = interleave({name: lambda name=name: order.append(name) for name in "ab"}, repetitions=3)
    assert "".join(order) == "abababab"
    assert [len(taken) for taken in seconds.values()] == [3, 3]


def test_a_ratio_is_taken_within_each_turn() -> None:
    """A machine that slows down threefold slows both: the ratio stays, where a ratio of medians would not."""
    ours, theirs = [1.0, 3.0, 9.0, 1.0, 1.0], [2.0, 6.0, 18.0, 2.0, 2.0]
    found = ratio(theirs, ours)
    assert (found.median, found.low, found.high) == (2.0, 2.0, 2.0)
    assert ratio([1, 2, 3, 4, 5], [1, 1, 1, 1, 1]).high == 4
    assert str(found) == "2.00 (2.00 to 2.00)"


def test_the_limit_is_the_rate_of_the_matrix_product() -> None:
    operations = 2 * 2048**3
    assert limit(operations, [2.0, 2.0], [1.0, 1.0]).median == 0.5


def test_counted_operations_agree_with_the_paper() -> None:
    paper = flops._paper()
    assert 4 * flops._encoder_forward() == pytest.approx(paper["encoder"], rel=0.005)
    forward, textbook, formed, whole = flops._branch()
    pairs, d, h = 128, 50, 128
    computed = 50 * 51 // 2  # entries of a factor: none above the diagonal is computed
    net = 2 * (2 * pairs) * (2 * d * h + h * h + h * computed)
    assert forward == pytest.approx(net, rel=0.05)
    assert forward < textbook < paper["pamd"]
    assert whole < paper["pamd"]
    assert 4 * formed == pytest.approx(paper["pamd"], rel=0.001)


def test_the_changes_beside_ours_are_those_the_paper_prints() -> None:
    paper = scaling._paper()
    assert list(paper) == ["dbc", "dbc-det+pamd", "mico", "simsr", "simsr+pamd"]
    assert paper["dbc-det+pamd"] == pytest.approx({"slower": 1.38, "total": 1.359}, abs=1e-3)
    assert paper["simsr+pamd"] == pytest.approx({"slower": 1.085, "total": 1.079}, abs=1e-3)


def test_a_table_is_written_with_the_machine_it_was_measured_on(tmp_path: Path) -> None:
    table = Table("x", "title", ["a"], [[1]], ["note"])
    write_measured(table, tmp_path / "deep" / "x.json", Options(threads=2, repetitions=3))
    found = json.loads((tmp_path / "deep" / "x.json").read_text())
    assert found["rows"] == [{"a": 1}]
    assert found["machine"]["threads"] == 2
    assert {"processor", "cores", "torch"} <= found["machine"].keys()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["updat"], "update"),
        (["update", "--repetitions", "1"], "at least 2"),
        (["update", "--threads", "0"], "at least 1"),
    ],
)
def test_what_cannot_be_measured_is_said_first(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["update", "replay", "render", "pipeline", "flops", "integrations", "peers"])
def test_a_benchmark_runs_and_writes_its_rows(name: str, tmp_path: Path) -> None:
    assert main(["bench", name, "--repetitions", "2", "--json", str(tmp_path)]) == 0
    found = json.loads((tmp_path / f"{name}.json").read_text())
    assert found["rows"]
    assert name in BENCHMARKS
