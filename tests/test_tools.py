"""The scripts that count how much there is to read, the limits on the way of one update, and pictures of tasks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.scripts import load_script

import pamd
from pamd.envs import metaworld

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


def test_the_picture_of_benchmarks_has_the_frames_of_each_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = load_script("tools/pictures.py")
    monkeypatch.setattr(pictures, "PICTURES", tmp_path)
    monkeypatch.setattr(pictures, "DECISIONS", (0, 2))
    frames = pictures.distracted("cartpole_swingup", "color")
    assert frames.shape == (2, 2, 84, 84, 3)
    assert (frames[0] != pictures.distracted("cartpole_swingup", "none")[0]).mean() > 0.5
    pictures.save(pictures.benchmarks("cartpole_swingup", ("none", "color")), "benchmarks")
    with Image.open(tmp_path / "benchmarks.png") as picture:
        assert picture.mode == "P"
        image = np.asarray(picture.convert("RGB")).astype(int)
    # The margin has 10 pixels, and the gap between episodes 6. The row of color is below the task's own.
    own, color = (image[-bottom - 84 : -bottom, -268:-184] for bottom in (94, 10))
    assert np.abs(color - frames[0, 1]).mean() < 8
    assert np.abs(own - frames[0, 1]).mean() > 20


def test_pictures_say_which_names_there_are_and_what_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pictures = load_script("tools/pictures.py")
    monkeypatch.setattr(metaworld, "task_names", lambda: ())
    for name, message in (("metaworld", "cannot draw metaworld: metaworld is not installed"), ("x", "expected one of")):
        with pytest.raises(SystemExit):
            pictures.main([name])
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["benchmarks", "metaworld"])
def test_published_pictures_of_tasks_are_small_and_complete(name: str) -> None:
    pictures = load_script("tools/pictures.py")
    rows = {"benchmarks": pictures.PRESETS, "metaworld": pictures.MANIPULATION}[name]
    with Image.open(pictures.PICTURES / f"{name}.png") as picture:
        assert picture.mode == "P"
        assert 84 * len(rows) < picture.height < 84 * (len(rows) + 1)
    assert (pictures.PICTURES / f"{name}.png").stat().st_size < 200_000
