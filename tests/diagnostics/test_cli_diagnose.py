"""`pamd diagnose` as a person types it."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from pamd.cli.main import main
from pamd.diagnostics.base import DIAGNOSTICS, Progress, diagnostic, quiet
from pamd.report.diagnostics import Section, parse_section

SMALL = ["--latent-dim", "6", "--transitions", "20", "--threads", "1"]


def read_section(place: Path) -> Section:
    return parse_section((place / "section.json").read_bytes(), str(place))


def test_residual_of_a_run_lands_in_it(runs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    run = runs["dbc-det+pamd"]
    assert main(["diagnose", "residual", str(run), "--seeds", "1", "--steps", "3", *SMALL]) == 0
    place = run / "diagnostics" / "residual-quick"
    assert {p.name for p in place.iterdir()} == {
        "curves.jsonl", "data.json", "residual.png", "residual.svg", "section.json",
    }  # fmt: skip
    said = capsys.readouterr().err
    assert "mlp" in said
    assert "absorption" in said
    data = json.loads((place / "data.json").read_text())
    assert {head["distance"]: head["parameters"] for head in data["heads"]}.keys() == {"pamd", "mlp"}
    assert read_section(place).figures[0].file == "residual"


def test_geometry_and_latents_land_in_the_run(runs: dict[str, Path]) -> None:
    run = runs["dbc-det+pamd"]
    assert main(["diagnose", "geometry", str(run), "--pairs", "20"]) == 0
    assert main(["diagnose", "latents", str(run), "--states", "24", "--neighbors", "2"]) == 0
    for name in ("geometry", "latents"):
        assert read_section(run / "diagnostics" / name).tables


def test_exact_without_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        "--distances",
        "l2",
        "mlp",
        "--dimensions",
        "2",
        "--seeds",
        "1",
        "--steps",
        "2",
        "--threads",
        "1",
        "--metrics",
        "mico",
    ]
    assert main(["diagnose", "exact", *words]) == 0
    assert len(json.loads((tmp_path / "diagnostics" / "exact" / "data.json").read_text())["cells"]) == 2 * 2 * 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["residual", "nowhere"], "neither a run directory nor a saved replay"),
        (["residual", "--preset", "paper"], "trained agent"),
        (["residual", "--distances", "pamb"], "Did you mean 'pamd'"),
        (["geometry", "nowhere"], "is not a run directory"),
        (["latents", "nowhere"], "is not a run directory"),
        (["exact", "--seeds", "0"], "seeds"),
    ],
)
def test_bad_words_get_one_clear_line(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["diagnose", *words]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error


def test_ctrl_c_keeps_what_was_computed(runs: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["residual", str(runs["sac"]), "--seeds", "2", "--steps", "300", "--out", str(out), *SMALL]
    command = [sys.executable, "-m", "pamd", "diagnose", *words]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    ledger = out / "curves.jsonl"
    while not (ledger.is_file() and len(ledger.read_text().splitlines()) > 1) and child.poll() is None:
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGINT)
    _, error = child.communicate()
    assert child.returncode == 130, error
    assert "rerun the same command to continue" in error
    kept = len(json.loads((out / "data.json").read_text())["curves"])
    assert 1 <= kept < 8
    assert (out / "residual.png").is_file()


@dataclass(frozen=True)
class Sums:
    kind: ClassVar[str] = "outside-sum"
    total: float
    values: tuple[float, ...]


def test_a_diagnostic_from_outside_is_a_command_with_a_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @diagnostic("outside-sum")
    def sums(values: Sequence[float] = (1.0, 2.0), *, scale: float = 1.0, progress: Progress = quiet) -> Sums:
        """Add numbers.

        Args:
            scale: the factor of every number
        """
        progress("adding", 1, 1)
        return Sums(scale * sum(values), tuple(values))

    monkeypatch.chdir(tmp_path)
    import pamd.cli.diagnose

    try:
        importlib.reload(pamd.cli.diagnose)  # The commands are made when the module is imported.
        assert main(["diagnose", "outside-sum", "--scale", "2"]) == 0
    finally:
        DIAGNOSTICS.unregister("outside-sum")
        importlib.reload(pamd.cli.diagnose)
    place = tmp_path / "diagnostics" / "outside-sum"
    assert json.loads((place / "data.json").read_text())["total"] == 6.0
    assert "6" in read_section(place).text()
