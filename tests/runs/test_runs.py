"""Run directories are read without torch, and a directory of another layout says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.report.runs import write_run

from pamd.configuration import configure
from pamd.errors import RunError
from pamd.runs import RunDirectory, read_progress, read_record, read_status
from pamd.runs.campaigns import campaign_runs, read_packed
from pamd.runs.identity import LAYOUT, run_name
from pamd.schema import from_json, to_tree
from pamd.training.config import TrainConfig

TORCH_FREE = ("pamd.runs", "pamd.runs.verify", "pamd.runs.campaigns", "pamd.report", "pamd.cli.report")


@pytest.mark.parametrize("module", TORCH_FREE)
def test_no_torch_is_imported(module: str) -> None:
    code = f"import sys, {module}; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_record_has_everything_a_report_needs(tmp_path: Path) -> None:
    run = write_run(tmp_path, values=[1.0, 2.0, 3.0])
    (run / "status.json").write_text(json.dumps({"state": "finished", "decisions": 2000, "time": 5.0}))
    (run / "versions.json").write_text(json.dumps([{"torch": "1"}, {"torch": "2"}]))
    record = read_record(run)
    assert record.config["method"]["name"] == "dbc-det"
    assert json.loads(record.config_text) == record.config
    assert [row["decisions"] for row in record.evaluations] == [0, 1000, 2000]
    assert [row["seconds"] for row in record.timing] == [100.0, 200.0]
    assert (record.status.state, record.status.time, record.versions[-1]) == ("finished", 5.0, {"torch": "2"})
    assert (record.verified, record.notices) == ("", ())


@pytest.mark.parametrize("layout", [1, LAYOUT + 1, "two"])
def test_another_layout_is_refused_with_what_to_do(tmp_path: Path, layout: object) -> None:
    run = write_run(tmp_path, layout=layout)
    says = rf"config\.json has layout {layout!r} \(pamd 0\.0\.0 wrote it\); this version reads layout {LAYOUT}\. Train"
    with pytest.raises(RunError, match=says):
        RunDirectory.open(run).config_tree()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": ["running"], "decisions": -1, "time": "noon"}'])
def test_a_damaged_status_is_no_status(tmp_path: Path, text: str) -> None:
    (tmp_path / "status.json").write_text(text)
    status = read_status(tmp_path)
    assert (status.known_state, status.decisions, status.time) == ("", None, None)
    assert read_progress(tmp_path).state == ""


@pytest.mark.parametrize("file", ["results/bench/learning.parquet", "studies/verdicts/runs.parquet"])
def test_published_runs_keep_their_names(file: str) -> None:
    """A new option must not rename earlier runs: a study would train them again, and a sweep would not resume them."""
    for run in campaign_runs(Path(__file__).parents[2] / file)[::20]:
        tree = json.loads(read_packed(run, "config.json"))
        fields = {key: value for key, value in tree.items() if key not in ("layout", "pamd")}
        assert run_name(to_tree(from_json(TrainConfig, json.dumps(fields), "config"))) == run.name


def test_terminations_name_a_run_only_if_its_task_can_terminate() -> None:
    def name(task: str, *, terminations: bool) -> str:
        config = configure(task, "simsr", settings=[f"method.metric.terminations={str(terminations).lower()}"])
        return run_name(to_tree(config))

    for task in ("walker_walk", "state:walker_walk", "toy:goal"):
        assert name(task, terminations=True) == name(task, terminations=False)
    for task in ("gym:CartPole-v1", "lqr_lqr_2_1"):
        assert name(task, terminations=True) != name(task, terminations=False)
