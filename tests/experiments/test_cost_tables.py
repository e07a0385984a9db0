"""The paper's tables of operations and of scaling. No test depends on a measured time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pamd.cli.main import main
from pamd.experiments import table_flops, table_scaling


def test_counted_operations_agree_with_the_paper() -> None:
    paper = table_flops._paper()
    assert 4 * table_flops._encoder_forward() == pytest.approx(paper["encoder"], rel=0.005)
    forward, textbook, formed, whole = table_flops._branch()
    pairs, d, h = 128, 50, 128
    computed = 50 * 51 // 2  # entries of a factor: none above the diagonal is computed
    net = 2 * (2 * pairs) * (2 * d * h + h * h + h * computed)
    assert forward == pytest.approx(net, rel=0.05)
    assert forward < textbook < paper["pamd"]
    assert whole < paper["pamd"]
    assert 4 * formed == pytest.approx(paper["pamd"], rel=0.001)


def test_the_changes_beside_ours_are_those_the_paper_prints() -> None:
    paper = table_scaling._paper()
    assert list(paper) == ["dbc", "dbc-det+pamd", "mico", "simsr", "simsr+pamd"]
    assert paper["dbc-det+pamd"] == pytest.approx({"slower": 1.38, "total": 1.359}, abs=1e-3)
    assert paper["simsr+pamd"] == pytest.approx({"slower": 1.085, "total": 1.079}, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows"), [("table-flops", 11), ("table-scaling", 5)])
def test_a_table_is_computed_and_written(name: str, rows: int, tmp_path: Path) -> None:
    assert main(["reproduce", name, "--scale", "smoke", "--out", str(tmp_path)]) == 0
    assert len(json.loads((tmp_path / "table.json").read_text())["rows"]) == rows
