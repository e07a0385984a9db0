"""The scripts that count how much there is to read, and the limits on the way of one update."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scripts import load_script

import pamd

MODULE = '''"""Docstring
of two lines."""

import os

LIMIT = 3


class Public:  # a comment
    """Docstring."""

    def _method(self) -> int:
        return _once() + _twice() + _twice()


def _once() -> int:
    # another comment
    return 1


def _twice() -> int:
    return 2
'''


def test_size_counts_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("one.py", "deep/two.py"):
        (tmp_path / name).write_text(MODULE)
    assert load_script("tools/size.py").source(tmp_path) == {
        "files": "2",
        "lines": "44",
        "lines of a file, median": "22",
        "lines of a file, most": "22",
        "public functions and classes": "2",
        "private functions used once": "2",
        "comments per 100 lines of code": "22.2",
    }


@pytest.mark.parametrize("schedule", ["sequential", "joint"])
@pytest.mark.parametrize("method", ["simsr+pamd", "dbc-det+pamd"])
def test_one_update_can_be_read_as_one_path(method: str, schedule: str) -> None:
    """Limits that may only fall. Each file and call on the way must be worth it."""
    found = load_script("tools/update_path.py").trace(method, schedule, Path(pamd.__file__).parent)
    assert found.deepest[0].name == found.value[0].name == "Agent.update"
    assert "._value" in found.value[-1].name
    assert len(found.files) <= 21
    assert len(found.deepest) <= 16
    assert len(found.value) <= 11
