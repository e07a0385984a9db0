"""The radius of the latent ball is part of the checkpoint, so an interrupted run has the same result."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tests.training.runs import products, toy, undisturbed

from pamd.training import load, resume, train


@pytest.mark.slow
def test_a_resumed_run_has_the_radius_and_everything_else(tmp_path: Path) -> None:
    config = toy("dbc-normed")
    run = train(dataclasses.replace(config, decisions=30), tmp_path)
    radius = load(run).measured.encoder.max_norm()
    resume(run, decisions=60)
    assert products(run) == undisturbed(config)
    assert load(run).measured.encoder.max_norm() >= radius > 1
