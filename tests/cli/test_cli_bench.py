"""`pamd bench`: speed and memory of a config on this machine. No test depends on a measured time."""

from __future__ import annotations

import json
import pkgutil
from pathlib import Path

import pytest
from tests.training.runs import toy

import benchmarks
from pamd.cli import bench
from pamd.cli.main import main
from pamd.training.config import config_text


def test_speed_and_memory_of_a_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(config_text(toy(decisions=1000)))
    words = ["--config", "config.json", "--set", "replay.capacity=500", "learner.updates_per_decision=0.5"]
    assert main(["bench", *words, "--seconds", "0.5", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["decisions per second"] > row["updates per second"] > 0
    assert row["measured decisions"] > 0
    assert (row["budget, decisions"], row["replay, frames"]) == (1000, 500)
    assert 0 < row["replay, GB of memory"] < row["peak memory, GB"]
    assert 50 < row["% act"] + row["% environment"] + row["% sample"] + row["% update"] <= 100
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["update", "--repetitions", "3"], "python -m benchmarks update"),
        (["kills"], "python -m tests.reliability kills"),
        (["scaling"], "pamd reproduce table-scaling"),
        (["toi"], "unknown task 'toi'"),
        (["toy", "--seconds", "0"], "must be positive"),
        (["toy", "--evaluate-every", "5"], "unknown option"),
        ([], "pamd bench cheetah_run"),
    ],
)
def test_what_cannot_be_measured_is_said_first(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_moved_benchmark_is_where_the_message_says() -> None:
    files = {module.name for module in pkgutil.iter_modules(benchmarks.__path__)}
    assert {name for name, place in bench.MOVED.items() if "-m benchmarks" in place} <= files
