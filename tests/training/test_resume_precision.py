"""A run in bfloat16 on devices with and without bfloat16 arithmetic: it is never silently different."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.runs import QUIET, toy

from pamd.configuration import configure
from pamd.errors import RunError
from pamd.training import resume, run_name, train
from pamd.training.session import Session


class Listener:
    def __init__(self) -> None:
        self.said: list[str] = []

    def progress(self, session: Session) -> None:
        pass

    def say(self, message: str) -> None:
        self.said.append(message)

    @property
    def about_precision(self) -> list[str]:
        return [message for message in self.said if message.startswith("precision")]


def pretend(monkeypatch: pytest.MonkeyPatch, fast: bool) -> None:
    for module in ("configuration", "training.session", "training.run"):
        monkeypatch.setattr(f"pamd.{module}.has_bfloat16", lambda _: fast)


def run(root: Path, fast: bool, monkeypatch: pytest.MonkeyPatch, precision: Any = "bfloat16") -> tuple[Path, list[str]]:
    """Train 60 decisions on a device with or without bfloat16 arithmetic."""
    pretend(monkeypatch, fast)
    listener = Listener()
    return train(toy("dbc-det", precision=precision), root, listener), listener.about_precision


def resumed(path: Path, fast: bool, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    pretend(monkeypatch, fast)
    listener = Listener()
    resume(path, QUIET, listener, decisions=70)
    return listener.about_precision


def test_a_new_run_says_that_it_will_be_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(tmp_path / "fast", True, monkeypatch)[1] == []
    (message,) = run(tmp_path / "slow", False, monkeypatch)[1]
    assert "cpu) has no bfloat16 arithmetic" in message
    assert run(tmp_path / "float32", False, monkeypatch, "float32")[1] == []


@pytest.mark.parametrize("before", [True, False])
def test_a_resume_elsewhere_says_that_it_rounds_differently(
    before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = run(tmp_path, before, monkeypatch)
    said = resumed(path, not before, monkeypatch)
    assert "rounds differently" in said[-1]
    assert ("has no bfloat16 arithmetic" in said[0]) is before
    assert json.loads((path / "config.json").read_text())["precision"] == "bfloat16"


def test_a_resume_on_the_same_device_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = run(tmp_path, True, monkeypatch)
    assert resumed(path, True, monkeypatch) == []


def test_auto_on_another_device_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()
    for fast in (True, False):
        path, _ = run(tmp_path, fast, monkeypatch, "auto")
        precision = json.loads((path / "config.json").read_text())["precision"]
        assert precision == ("bfloat16" if fast else "float32")
        names.add(path.name)
    assert len(names) == 2
    assert run_name(toy("dbc-det")) in names  # float32 keeps the name that it always had


def test_the_precision_of_a_run_cannot_be_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = run(tmp_path, True, monkeypatch)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "precision": "float32"}))
    with pytest.raises(RunError, match="precision"):
        resumed(path, True, monkeypatch)


def test_a_device_that_cannot_be_used_is_named_before_auto_is_resolved() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(Exception, match="device 'cuda' cannot be used"):
        configure("toy", precision="auto", runtime=dataclasses.replace(QUIET, device="cuda"))
