"""The storm of kills: faults occur at the intended call, and the comparison covers every byte. The slope of a soak."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.reliability import kills, soak, sweeps
from tests.reliability.__main__ import main
from tests.reliability.kills import KINDS, Kind
from tests.reliability.runs import SCENARIOS, differing

from pamd.replay.layout import STORAGES

pytestmark = pytest.mark.reliability

ROOT = Path(__file__).parents[2]

RENAMES = """
import os, sys
from tests.reliability.faults import Fault, install
install(Fault("rename", 2, after=sys.argv[2] == "after"))
for i, rename in enumerate((os.rename, os.replace, os.rename)):
    rename(f"{sys.argv[1]}/{i}", f"{sys.argv[1]}/renamed-{i}")
"""

WRITES = """
import sys
from pathlib import Path
from pamd import atomic_io
from tests.reliability.faults import Fault, install
install(Fault("write", 2))
for i in range(3):
    try:
        atomic_io.write(Path(sys.argv[1]) / str(i), b"0123456789")
    except OSError as error:
        print(error.errno)
"""


def child(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.parametrize(
    ("when", "left"), [("before", ["1", "2", "renamed-0"]), ("after", ["2", "renamed-0", "renamed-1"])]
)
def test_a_kill_comes_right_before_or_after_the_second_rename(tmp_path: Path, when: str, left: list[str]) -> None:
    for name in "012":
        (tmp_path / name).touch()
    assert child(RENAMES, str(tmp_path), when).returncode == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_a_full_disk_takes_half_of_a_write_and_nothing_after_it(tmp_path: Path) -> None:
    done = child(WRITES, str(tmp_path))
    assert done.stdout.split() == ["28", "28"], done.stderr
    assert [(tmp_path / name).read_bytes() for name in "012"] == [b"0123456789", b"01234", b""]


@pytest.mark.parametrize(
    ("came", "code", "said", "fine"),
    [
        (["SIGKILL"], -9, "", True),
        (["SIGKILL"], 0, "", True),
        (["SIGKILL"], 1, "", False),
        (["STOP/CONT"], 130, "", False),
        ([], 2, "pamd: refused", False),
        (["full disk"], 2, "pamd: No space left on device", True),
        (["full disk"], 2, "Traceback (most recent call last):\n", False),
        (["SIGINT twice"], 130, "Traceback (most recent call last):\nKeyboardInterrupt: \n", True),
        (["SIGINT twice"], 130, "Traceback (most recent call last):\nKeyError: 1\n", False),
    ],
)
def test_only_what_the_interruption_explains_is_fine(came: list[Kind], code: int, said: str, fine: bool) -> None:
    assert (kills._problem(came, code, said) is None) == fine


def test_every_byte_that_differs_is_counted() -> None:
    one = {"same": b"abc", "changed": b"abcd", "longer": b"ab", "only here": b""}
    other = {"same": b"abc", "changed": b"axcy", "longer": b"abcde"}
    assert differing(one, other) == {"changed": 2, "longer": 3, "only here": 0}


def test_the_scenarios_cover_every_storage_on_the_toy_and_on_dmcontrol_with_and_without_videos() -> None:
    for storage in STORAGES:
        mine = [one for one in SCENARIOS if one.storage == storage]
        assert {one.task.startswith("toy") for one in mine} == {True, False}
        assert {one.background is None for one in mine} == {True, False}
    assert len({one.name for one in SCENARIOS}) == len(SCENARIOS)


def row(number: int, different: dict[str, int], **interruptions: int) -> dict[str, object]:
    kinds: list[Kind] = list(KINDS)
    counts = {kinds[int(name[1:])]: count for name, count in interruptions.items()}
    return {
        "run": number,
        "scenario": SCENARIOS[number].name,
        "processes": 3,
        "interruptions": counts,
        "bytes": 100,
        "different": different,
        "problems": ["exit code 1"] if number else [],
    }


def test_the_table_adds_up_and_names_what_went_wrong(tmp_path: Path) -> None:
    table = kills._table([row(0, {}, k0=2, k3=1), row(1, {"train.jsonl": 7}, k0=5)], tmp_path)
    *_, total = table.records()
    assert total["SIGKILL"] == 7
    assert total["interruptions"] == 8
    assert (total["bytes compared"], total["bytes different"], total["resumes failed"]) == (200, 7, 1)
    assert any("train.jsonl" in note for note in table.notes)


def test_a_leak_shows_in_the_slope_and_a_flat_curve_has_none() -> None:
    def slope(values: list[int]) -> float:
        readings = [{"decisions": 100 * i, "rss": value} for i, value in enumerate(values)]
        return float(soak._row("rss", "memory", readings, readings)["slope"])

    assert slope([5, 5, 5, 5]) == 0
    assert slope([5, 6, 7, 8]) == pytest.approx(3)


@pytest.mark.parametrize("words", [["--most-runs", "0"], ["--minutes", "-1"]])
def test_a_storm_needs_positive_limits(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["kills", *words])
    assert "must be positive" in capsys.readouterr().err


@pytest.mark.slow
def test_a_short_storm_ends_with_the_same_bytes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.reliability", "kills", "--most-runs", "3", "--json", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    *_, total = json.loads((tmp_path / "kills.json").read_text())["rows"]
    assert total["runs"] == 3
    assert total["interruptions"] >= 3
    assert (total["bytes different"], total["resumes failed"]) == (0, 0)


def test_the_table_of_sweeps_adds_up_and_names_what_went_wrong(tmp_path: Path) -> None:
    fine = {"run": 0, "scenario": "local", "interruptions": {"driver SIGHUP": 2}, "seconds": [0.1, 2.5], "lost": 0}
    fine |= {"bytes": 100, "different": {}, "problems": []}
    bad = {"run": 1, "scenario": "ray", "interruptions": {"worker SIGKILL": 1}, "seconds": [], "lost": 3, "bytes": 0}
    bad |= {"different": {}, "problems": ["exit code 134"]}
    table = sweeps._table([fine, bad], tmp_path)
    local, _, total = table.records()
    assert (local["driver SIGHUP"], local["slowest end of a run, s"], local["sweeps failed"]) == (2, 2.5, 0)
    assert (total["interruptions"], total["decisions lost"], total["sweeps failed"]) == (3, 3, 1)
    assert any("exit code 134" in note for note in table.notes)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["local", "ray"])
def test_an_interrupted_sweep_ends_with_the_same_bytes(backend: str, tmp_path: Path) -> None:
    if backend == "ray":
        pytest.importorskip("ray")
    command = [sys.executable, "-m", "tests.reliability", "sweeps", "--interruptions", "1", "--backends", backend]
    done = subprocess.run([*command, "--json", str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    *_, total = json.loads((tmp_path / "sweeps.json").read_text())["rows"]
    assert total["interruptions"] >= 1
    assert (total["bytes different"], total["decisions lost"], total["sweeps failed"]) == (0, 0, 0)
