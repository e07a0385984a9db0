"""Repetitions, ratios and sessions of measurements. No test depends on a measured time."""

from __future__ import annotations

import json
from pathlib import Path

from pamd.configuration import configure
from pamd.measure import interleave, learning_session, ratio, train_once, write_measured
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


def test_a_session_has_begun_to_learn_and_leaves_nothing_behind(tmp_path: Path) -> None:
    settings = ("learner.batch=60", "learner.random_decisions=60")
    config = configure("toy", "simsr+pamd", scale="smoke", decisions=100, settings=settings)
    with learning_session(config, threads=1, warm_up=2, directory=tmp_path) as session:
        assert session.budget.decisions == 150 + 2
        assert session.budget.updates == 3
        train_once(session)
        assert session.budget[::2] == (153, 4)
        assert any(tmp_path.iterdir())
    assert not any(tmp_path.iterdir())


def test_a_table_is_written_with_the_machine_it_was_measured_on(tmp_path: Path) -> None:
    table = Table("x", "title", ["a"], [[1]], ["note"])
    write_measured(table, tmp_path / "deep" / "x.json", threads=2, repetitions=3)
    found = json.loads((tmp_path / "deep" / "x.json").read_text())
    assert found["rows"] == [{"a": 1}]
    assert found["machine"]["threads"] == 2
    assert {"processor", "cores", "torch"} <= found["machine"].keys()
