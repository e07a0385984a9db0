"""Which instrument predicts the return: rank correlations over runs, overall and within a method."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from studies.verdicts.instruments import INSTRUMENTS, instrument_table, measure
from tests.report.runs import write_run

from pamd.diagnostics.base import rank_correlation
from pamd.report.comparison import Comparison, compare
from pamd.report.run import load_runs
from pamd.report.statistics import Estimate

RANK = next(one for one in INSTRUMENTS if one.name == "rank")


def _runs(root: Path) -> Comparison:
    """Two methods: a higher rank means a lower return within each, and the method with the higher rank is better."""
    for method, rank, score in (("dbc-det", 10.0, 100.0), ("dbc-det+pamd", 20.0, 300.0)):
        for seed in range(4):
            path = write_run(root, method, seed, [0.0, 5.0, score - 10 * seed])
            rows = [{"kind": "update", "effective_rank": value} for value in (1.0, rank + seed)]
            (path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return compare(load_runs([root]))


def test_rank_correlation_shares_ranks_and_accepts_constants() -> None:
    x = np.array([1.0, 2.0, 2.0, 3.0])
    assert rank_correlation(x, x**3) == pytest.approx(1)
    assert rank_correlation(x, -x) == pytest.approx(-1)
    # Ranks 1, 2.5, 2.5, 4 and 2, 1, 3, 4: Pearson's correlation of them, by hand.
    assert rank_correlation(x, np.array([2.0, 1.0, 3.0, 4.0])) == pytest.approx(3 / np.sqrt(4.5 * 5))
    assert rank_correlation(x, np.ones(4)) == 0


def test_the_last_value_of_every_finished_run_counts(tmp_path: Path) -> None:
    (found,) = measure(_runs(tmp_path))[RANK]
    assert sorted(found.values) == [10, 11, 12, 13, 20, 21, 22, 23]
    assert sorted(found.returns) == [70, 80, 90, 100, 270, 280, 290, 300]


def test_the_table_separates_methods_from_runs_of_a_method(tmp_path: Path) -> None:
    table = instrument_table(measure(_runs(tmp_path)), np.random.default_rng(0))
    ((name, _, overall, within, tasks, runs),) = table.rows
    assert (name, tasks, runs) == ("rank", 1, 8)
    assert isinstance(overall, Estimate)
    assert isinstance(within, Estimate)
    assert within.value == pytest.approx(-1)
    assert overall.value > 0.4


def test_runs_without_meters_have_no_instruments(tmp_path: Path) -> None:
    write_run(tmp_path / "runs")
    assert measure(compare(load_runs([tmp_path / "runs"]))) == {}
