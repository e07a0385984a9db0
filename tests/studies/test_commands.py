"""A study trains what its data does not have, and its data has finished runs only."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies.commands import add_finished, train_missing

from pamd.agent import Agent
from pamd.cli.sweep import Execution
from pamd.configuration import configure
from pamd.experiments import Labeled
from pamd.report.run import load_runs
from pamd.training import Runtime, train


def _fail(*arguments: object) -> None:
    raise InterruptedError


def test_an_unfinished_run_is_not_packed_and_still_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = Runtime(tensorboard=False, video="off")
    configs = [configure("toy", "none", scale="smoke", seed=seed, decisions=60, runtime=quiet) for seed in range(2)]
    runs, data = tmp_path / "runs", tmp_path / "runs.parquet"
    done = train(configs[0], runs)
    monkeypatch.setattr(Agent, "update", _fail)
    with pytest.raises(InterruptedError):
        train(configs[1], runs)
    for _ in range(2):  # packing again adds nothing
        add_finished(runs, data)
    assert [run.path.name for run in load_runs([data])] == [done.name]
    labeled = [Labeled("none", config) for config in configs]
    assert train_missing(labeled, data, tmp_path / "more", Execution(), plan=True) == 0
    assert "1 of 2 runs are missing" in capsys.readouterr().err
