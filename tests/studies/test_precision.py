"""The plan of the study of bfloat16 as data, and its tables."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from studies.precision import analysis, updates
from studies.precision.plan import PRECISIONS, SEEDS, TASKS, runs


def test_the_runs_are_pairs_that_differ_in_nothing_but_the_precision() -> None:
    planned = runs()
    assert len(planned) == len(TASKS) * len(SEEDS) * 2 == 20
    for full, half in zip(planned[::2], planned[1::2], strict=True):
        assert (full.config.precision, half.config.precision) == PRECISIONS
        assert dataclasses.replace(half.config, precision="float32") == full.config


def test_the_difference_is_paired_and_its_interval_draws_seeds_within_tasks() -> None:
    same = analysis._estimate([np.array([5.0, 5.0, 5.0]), np.array([-1.0, -1.0])])
    assert (same.value, same.low, same.high) == (2.0, 2.0, 2.0)
    spread = analysis._estimate([np.array([-10.0, 10.0] * 5), np.zeros(5)])
    assert spread.low is not None
    assert spread.high is not None
    assert -5 <= spread.low < 0 < spread.high <= 5


def test_losses_are_averaged_over_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "DATA", tmp_path / "updates.csv")
    assert updates.rows() == []
    losses = {name: dict.fromkeys(updates.LOSSES, 1.0) for name in updates.AGENTS}
    latents = {name: {"rounding": 0.1, "distances": 0.9} for name in updates.AGENTS}
    for update, value in ((90, 1.0), (100, 3.0), (110, 7.0), (110, 5.0)):  # a repeated row replaces the first
        for one in losses.values():
            one["critic_loss"] = value
        updates._append(update, losses, latents)  # type: ignore[arg-type]
    table = analysis._losses(updates.rows())
    assert [row[:3] for row in table.rows if row[1] == "bfloat16"] == [
        ["1 to 100", "bfloat16", "2"],
        ["101 to 110", "bfloat16", "5"],
    ]
