"""What nobody expected is one line and a file, never a bare traceback."""

from __future__ import annotations

import importlib
import re
import tempfile
from pathlib import Path

import pytest

from pamd.cli.main import main

CLI = importlib.import_module("pamd.cli.main")


@pytest.mark.parametrize("error", [ZeroDivisionError("a\nb"), RecursionError(), MemoryError("much"), KeyError("x")])
def test_one_line_and_a_file_with_the_traceback(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(command: str, words: list[str]) -> int:
        raise error

    monkeypatch.setattr(CLI, "_dispatch", broken)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["list"]) == 70
    said = capsys.readouterr().err
    assert said.startswith(f"pamd: unexpected {type(error).__name__}")
    assert said.count("\n") == 1
    (file,) = tmp_path.iterdir()
    assert str(file) in said
    assert "in broken\n    raise error" in file.read_text()


def test_without_a_place_for_the_file_the_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError("full")

    monkeypatch.setattr(CLI, "_dispatch", lambda command, words: 1 // 0)
    monkeypatch.setattr(tempfile, "mkstemp", full)
    assert main(["list"]) == 70
    assert re.fullmatch(r"pamd: unexpected ZeroDivisionError: .*no place .*\n", capsys.readouterr().err)
