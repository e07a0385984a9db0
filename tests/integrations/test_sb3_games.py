"""The script of the learning curves at tiny budgets: discrete pixel games, and a task of the suite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from studies.integrations.analysis import curves as evaluations
from tests.scripts import load_script


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = load_script("studies/integrations/train.py")
    for setting in module.TASKS.values():
        setting |= {"decisions": 60, "evaluations": 3}
        setting["options"] |= {"learning_starts": 20, "buffer_size": 60, "batch_size": 8}
    # A game takes hundreds of decisions, so that evaluations are not played.
    monkeypatch.setattr(module, "evaluate_policy", lambda *args, **options: ([1.0, 2.0], [3, 4]))
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "package", "method"),
    [
        ("MinAtar/Breakout-v1", "minatar", "simsr+pamd"),
        ("MinAtar/Breakout-v1", "minatar", "none"),
        ("ALE/Boxing-v5", "ale_py", "mico"),
        ("cartpole_balance", "dm_control", "simsr+pamd"),
    ],
)
def test_a_curve_that_was_interrupted_is_continued(
    task: str, package: str, method: str, curves: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package)
    arguments = (task, method, 0, tmp_path / "out", tmp_path / "saved")
    evaluate = curves.evaluate_policy
    answers = iter([evaluate()])
    monkeypatch.setattr(
        curves, "evaluate_policy", lambda *args, **options: next(answers)
    )  # StopIteration at the second
    with pytest.raises(StopIteration):
        curves.run(*arguments)
    monkeypatch.setattr(curves, "evaluate_policy", evaluate)
    (folder,) = (tmp_path / "out").iterdir()
    first = rows(folder)
    assert [row["decisions"] for row in first] == [20]
    assert curves.run(*arguments) == folder
    whole = rows(folder)
    assert whole[:1] == first
    assert [row["decisions"] for row in whole] == [20, 40, 60]
    # After the first twenty decisions: one at each (SAC), one in four (DQN). The last comes after the row.
    assert whole[-1]["updates"] == (39 if task == "cartpole_balance" else 9)
    assert whole[-1]["frames"] == 60 * curves.TASKS[task]["frames"]
    monkeypatch.setattr(curves, "make_env", None)
    curves.run(*arguments)  # nothing is left to do
    table = evaluations([((folder / "config.json").read_bytes(), (folder / "eval.jsonl").read_bytes())])
    assert [[row[key] for key in ("decisions", "frames", "updates", "return")] for row in table] == [
        [*(row[key] for key in ("decisions", "frames", "updates")), 1.5] for row in whole
    ]
    assert {(row["task"], row["method"], row["seed"]) for row in table} == {(task, method, 0)}


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "eval.jsonl").read_text().splitlines()]
