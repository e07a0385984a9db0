"""The paper's numbers, checked against a second transcription."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pamd import published
from pamd.errors import UnknownNameError

NAMES = ["fig-diagonal", "fig-mlp", "fig-trace", "fig-video", "fig1-dbc", "fig1-independent"]
NAMES += ["table-flops", "table-reference", "table-scaling", "table1"]


def found(name: str, task: str, method: str) -> published.Published:
    (row,) = [row for row in published.load(name) if (row.task, row.method) == (task, method)]
    return row


def test_every_table_loads_and_says_where_it_is_from() -> None:
    assert published.names() == NAMES
    for name in NAMES:
        rows = published.load(name)
        assert rows
        for row in rows:
            assert "tab:" in row.source or "fig:" in row.source
            assert row.approximate == row.source.startswith("read off")
            assert row.error is None or not row.approximate
        keys = [(row.task, row.method, row.quantity, row.decisions) for row in rows]
        assert len(set(keys)) == len(keys)


def test_table_1() -> None:
    pamd = [row for row in published.load("table1") if row.method == "dbc-det+pamd"]
    assert [(r.task, r.mean, r.error, r.decisions, r.action_repeat) for r in pamd] == [
        ("cartpole_swingup", 818, 15, 200_000, 4),
        ("cheetah_run", 524, 14, 1_000_000, 4),
        ("finger_spin", 860, 81, 150_000, 2),
        ("hopper_hop", 181, 17, 2_000_000, 4),
    ]
    assert str(pamd[0]) == "818 ± 15"


def test_what_others_report_is_counted_in_frames() -> None:
    taco, ours = found("table-reference", "cheetah_run", "taco"), found("table-reference", "cheetah_run", "simsr+pamd")
    assert (taco.decisions, taco.frames, taco.seeds) == (None, 1_000_000, 6)
    assert (ours.decisions, ours.mean, ours.error, ours.seeds) == (1_000_000, 878, 8, 5)
    assert found("table-reference", "walker_run", "simsr").decisions == 500_000
    assert len(published.load("table-reference")) == 15 + 20


def test_what_is_read_off_a_figure_says_so() -> None:
    read = found("fig-trace", "walker_run", "simsr+pamd (no trace)")
    assert str(read) == "≈502"
    assert read.error is None
    assert found("fig-video", "cheetah_run", "dbc-det").video


def test_costs() -> None:
    branch = [row.mean for row in published.load("table-flops")]
    assert branch[1] / branch[0] == pytest.approx(branch[2] / 100, rel=0.01)
    scaling = {(r.method, r.task, r.quantity): r.mean for r in published.load("table-scaling")}
    slower = scaling["dbc-det+pamd", "d=200", "update time (ms)"] / scaling["dbc-det+pamd", "d=50", "update time (ms)"]
    assert slower == pytest.approx(1.38, abs=0.001)  # the paper prints 38.0 %
    assert len(scaling) == 30


def test_an_unknown_name_is_met_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="fig-trace"):
        published.load("fig-trase")


def test_no_torch() -> None:
    code = "import sys, pamd.published as p; p.load('table1'); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
