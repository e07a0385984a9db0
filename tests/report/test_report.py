"""Curves are read from files, and figures are drawn from curves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.report.runs import write_run

from pamd.errors import RunError
from pamd.report import learning_curves, load_run
from pamd.report.figures import color


def test_a_curve_reads_what_the_run_wrote_and_leaves_out_a_half_written_line(tmp_path: Path) -> None:
    run = write_run(tmp_path, "simsr+pamd", 4, [1.0, 2.0, 3.0], every=10)
    with (run / "eval.jsonl").open("a") as file:
        file.write('{"decisions": 30, "fra')
    curve = load_run(run).curve
    assert (curve.task, curve.method, curve.seed) == ("cheetah_run", "simsr+pamd", 4)
    assert curve.decisions == [0, 10, 20]
    assert curve.frames == [0, 80, 160]
    assert curve.returns[2] == [2.0, 4.0]


@pytest.mark.parametrize("damage", ["config.json", "eval.jsonl"])
def test_an_unreadable_run_is_named(tmp_path: Path, damage: str) -> None:
    run = write_run(tmp_path / "run")
    (run / damage).write_text("{}\n[]\n")
    with pytest.raises(RunError, match=re.escape(damage)):
        load_run(run)


def test_figures_are_written_as_svg_and_png(tmp_path: Path) -> None:
    curves = [load_run(write_run(tmp_path / name)).curve for name in ("a", "b")]
    written = learning_curves(curves, tmp_path / "figures" / "curves", baseline=1.0)
    assert [path.name for path in written] == ["curves.svg", "curves.png"]
    assert "random play (1)" in written[0].read_text() or written[0].stat().st_size > 5000


def test_a_method_has_one_color() -> None:
    assert color("simsr+pamd") != color("simsr")
    assert color("mico+pamd-block") == color("mico+pamd-block")
