"""Curves come from files alone, and figures from curves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pamd.errors import RunError
from pamd.report import learning_curves, load_curve
from pamd.report.figure import colour


def write_run(path: Path, evaluations: int = 3) -> Path:
    path.mkdir()
    config = {"env": {"task": "toy"}, "method": {"name": "simsr+pamd", "fidelity": "paper"}, "seed": 4}
    config |= {"decisions": 20, "scale": {"name": "smoke"}}
    (path / "config.json").write_text(json.dumps(config))
    rows = [
        {"decisions": 10 * i, "frames": 20 * i, "updates": 5 * i, "returns": [i, i + 2.0]} for i in range(evaluations)
    ]
    (path / "eval.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_curve_reads_what_the_run_wrote_and_leaves_out_a_half_written_line(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with (run / "eval.jsonl").open("a") as file:
        file.write('{"decisions": 30, "fra')
    curve = load_curve(run)
    assert (curve.task, curve.method, curve.seed) == ("toy", "simsr+pamd", 4)
    assert curve.decisions == [0, 10, 20]
    assert curve.frames == [0, 20, 40]
    assert curve.returns[2] == [2.0, 4.0]


@pytest.mark.parametrize("damage", ["config.json", "eval.jsonl"])
def test_an_unreadable_run_is_named(tmp_path: Path, damage: str) -> None:
    run = write_run(tmp_path / "run")
    (run / damage).write_text("{}\n[]\n")
    with pytest.raises(RunError, match=re.escape(damage)):
        load_curve(run)


def test_figures_are_written_as_svg_and_png(tmp_path: Path) -> None:
    curves = [load_curve(write_run(tmp_path / name)) for name in ("a", "b")]
    written = learning_curves(curves, tmp_path / "figures" / "curves", baseline=1.0)
    assert [path.name for path in written] == ["curves.svg", "curves.png"]
    assert "random play (1)" in written[0].read_text() or written[0].stat().st_size > 5000


def test_a_method_has_one_colour() -> None:
    assert colour("simsr+pamd") != colour("simsr")
    assert colour("mico+pamd-block") == colour("mico+pamd-block")
