"""The script of the learning curves at tiny budgets: discrete pixel games, and a task of the suite."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("sb3_curves", ROOT / "examples" / "sb3_curves.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "EVALUATIONS", 2)
    for setting in module.TASKS.values():
        setting["options"] |= {"learning_starts": 20, "buffer_size": 60, "batch_size": 8}
    return module


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "eval.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "package", "method"),
    [
        ("MinAtar/Breakout-v1", "minatar", "simsr+pamd"),
        ("MinAtar/Breakout-v1", "minatar", "none"),
        ("ALE/Pong-v5", "ale_py", "mico"),
        ("cartpole_swingup", "dm_control", "simsr+pamd"),
    ],
)
def test_a_curve_is_drawn_and_continued(task: str, package: str, method: str, curves: Any, tmp_path: Path) -> None:
    pytest.importorskip(package)
    monkeypatched = curves.evaluate_policy
    curves.evaluate_policy = lambda *args, **options: ([1.0, 2.0], [3, 4])  # a game of Pong takes a thousand decisions
    arguments = (task, method, 0)
    folder = curves.run(*arguments, 40, tmp_path / "out", tmp_path / "saved")
    first = rows(folder)
    assert [row["decisions"] for row in first] == [20, 40]
    # After the first twenty decisions: one at each (SAC), one in four (DQN). The last comes after the row.
    assert first[-1]["updates"] == (19 if task == "cartpole_swingup" else 4)
    assert first[-1]["frames"] == 40 * curves.TASKS[task]["frames"]
    assert rows(curves.run(*arguments, 40, tmp_path / "out", tmp_path / "saved")) == first  # nothing is left to do
    longer = rows(curves.run(*arguments, 60, tmp_path / "out", tmp_path / "saved"))
    assert longer[:2] == first
    assert longer[-1]["decisions"] == 60
    curves.evaluate_policy = monkeypatched
    assert curves.plot(tmp_path / "out").is_file()
