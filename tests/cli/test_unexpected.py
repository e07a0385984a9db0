"""An unexpected error prints one line and writes the traceback to a file."""

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
    message = capsys.readouterr().err
    assert message.startswith(f"pamd: unexpected {type(error).__name__}")
    assert message.count("\n") == 1
    (file,) = tmp_path.iterdir()
    assert str(file) in message
    assert "in broken\n    raise error" in file.read_text()


def test_the_message_states_that_the_traceback_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError("full")

    monkeypatch.setattr(CLI, "_dispatch", lambda command, words: 1 // 0)
    monkeypatch.setattr(tempfile, "mkstemp", full)
    assert main(["list"]) == 70
    assert re.fullmatch(r"pamd: unexpected ZeroDivisionError: .*could not be written .*\n", capsys.readouterr().err)
