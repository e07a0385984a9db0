"""Budgets and values that the paper's figures show, and the runs that have them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fidelity.difference import report

from pamd import published
from pamd.experiments import EXPERIMENTS

READ_OFF: dict[str, dict[tuple[str, str], tuple[float, int]]] = {
    "fig1-independent": {
        ("point_mass_easy", "simsr+pamd"): (694, 500_000),
        ("point_mass_easy", "mico"): (666, 500_000),
        ("point_mass_easy", "simsr"): (125, 500_000),
    },
    "fig-trace": {
        ("walker_run", "simsr+pamd"): (651, 600_000),
        ("walker_run", "simsr+pamd (no trace)"): (502, 600_000),
    },
    "fig-video": {("cheetah_run", "dbc-det"): (248, 1_000_000), ("cheetah_run", "dbc-det+pamd"): (449, 1_000_000)},
}
"""Figure: (task, method): value and decisions where its axis ends."""


@pytest.mark.parametrize("name", READ_OFF)
def test_numbers_and_budgets_are_those_of_the_figure(name: str) -> None:
    rows: dict[Any, Any] = {(row.task, row.method): row for row in published.load(name)}
    arms = {(arm.task, arm.label): arm for arm in EXPERIMENTS.get(name).arms}
    for key, (value, decisions) in READ_OFF[name].items():
        assert rows[key].approximate
        found = (rows[key].mean - value, rows[key].decisions - decisions, arms[key].decisions - decisions)
        report("paper", float(max(map(abs, found))))
        assert found == (0, 0, 0), key
