"""The order of the released loop, and the start states of its evaluations."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.runs import products, toy

from pamd.agent import Agent
from pamd.configuration import configure
from pamd.envs.wrappers import Episodes
from pamd.replay import Replay
from pamd.training import resume, run_name, train
from pamd.training.evaluate import EVALUATION


@pytest.fixture(autouse=True)
def _single() -> None:
    """Runs are computed in float32."""
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("method", ["dbc-det+pamd", "simsr+pamd"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"fidelity": "released"}, (True, "new")),
        ({"fidelity": "paper"}, (False, "same")),
        ({"fidelity": "released", "scale": "cpu"}, (False, "same")),
    ],
)
def test_the_released_loop_at_the_papers_scale(method: str, options: Any, expected: tuple[bool, str]) -> None:
    config = configure("toy", method, **options)
    assert (config.act_before_update, config.evaluate_starts) == expected


@pytest.mark.parametrize(("act_before_update", "order"), [(True, "act update store"), (False, "act store update")])
def test_the_order_of_one_decision(
    act_before_update: bool, order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def record(owner: Any, function: str, name: str) -> None:
        original = getattr(owner, function)

        def wrapped(*args: Any, **options: Any) -> Any:
            if options.get("explore", True):  # Evaluations do not explore.
                calls.append(name)
            return original(*args, **options)

        monkeypatch.setattr(owner, function, wrapped)

    record(Agent, "act", "act")
    record(Agent, "update", "update")
    record(Replay, "add", "store")
    train(dataclasses.replace(toy(decisions=30), act_before_update=act_before_update), tmp_path)
    # Twenty random decisions, then one update per decision. In both orders, the first update sees twenty transitions.
    assert calls[:20] == ["store"] * 20
    first = [] if act_before_update else ["update"]
    assert calls[20:] == [*first, *(order.split() * 10)]


def test_new_starts_are_new_at_each_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    begin = Episodes._begin

    def recorded(self: Any, episode: int) -> Any:
        if self.seed == EVALUATION:
            begun.append(episode)
        return begin(self, episode)

    monkeypatch.setattr(Episodes, "_begin", recorded)
    config = dataclasses.replace(toy("simsr"), evaluate_episodes=2)
    train(config, tmp_path)
    assert begun == [0, 1] * 3
    begun.clear()
    run = train(dataclasses.replace(config, evaluate_starts="new"), tmp_path)
    assert begun == [0, 1, 30, 31, 60, 61]
    rows = [json.loads(line) for line in (run / "eval.jsonl").read_text().splitlines()]
    assert [row["decisions"] for row in rows] == [0, 30, 60]


def test_a_run_in_the_released_order_can_be_extended_exactly(tmp_path: Path) -> None:
    def config(decisions: int) -> Any:
        return dataclasses.replace(toy(decisions=decisions), act_before_update=True, evaluate_starts="new")

    straight = products(train(config(90), tmp_path / "straight"))
    assert products(resume(train(config(60), tmp_path / "extended"), decisions=90)) == straight


def test_our_order_keeps_the_names_of_runs() -> None:
    ours = toy()
    assert run_name(dataclasses.replace(ours, act_before_update=True)) != run_name(ours)
    assert run_name(dataclasses.replace(ours, evaluate_starts="new")) != run_name(ours)
