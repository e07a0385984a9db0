"""`pamd verify` finds what is wrong and changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.training.runs import products, toy, undisturbed

from pamd.cli.main import main
from pamd.errors import RunError
from pamd.runs import read_record
from pamd.runs.verify import verify_run
from pamd.runs.versions import versions
from pamd.training import RunDirectory, resume, train

NEWEST = "checkpoints/000000040"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(toy(decisions=40), tmp_path_factory.mktemp("runs"))


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / finished.name))


def contents(run: Path) -> dict[str, tuple[int, str]]:
    files = [path for path in run.rglob("*") if path.is_file()]
    return {str(p): (p.stat().st_mtime_ns, hashlib.sha256(p.read_bytes()).hexdigest()) for p in files}


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def edit(name: str, **fields: object) -> Callable[[Path], None]:
    def apply(run: Path) -> None:
        tree = json.loads((run / name).read_text())
        (run / name).write_text(json.dumps({**tree, **fields}))

    return apply


def link(name: str) -> Callable[[Path], None]:
    def apply(run: Path) -> None:
        elsewhere = run.parent / "elsewhere"
        (run / name).rename(elsewhere)
        (run / name).symlink_to(elsewhere)

    return apply


def garble_row(run: Path, name: str = "train.jsonl", row: int = 2) -> None:
    rows = (run / name).read_bytes().split(b"\n")
    rows[row - 1] = b"\x00" * len(rows[row - 1])
    (run / name).write_bytes(b"\n".join(rows))


def append(name: str, data: bytes) -> Callable[[Path], None]:
    return lambda run: (run / name).write_bytes((run / name).read_bytes() + data)


def cut(run: Path) -> None:
    (run / "eval.jsonl").write_bytes((run / "eval.jsonl").read_bytes()[:-7])


DAMAGE: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "config edited": (edit("config.json", seed=5), "config.json", "was edited"),
    "config no JSON": (lambda run: (run / "config.json").write_text("{"), "config.json", "not valid JSON"),
    "tensors": (
        lambda run: flip(run / NEWEST / "tensors.safetensors", 5000),
        NEWEST,
        "has changed since it was written",
    ),
    "state": (lambda run: flip(run / NEWEST / "state.json", 10), NEWEST, "has changed since it was written"),
    "no digests": (lambda run: (run / NEWEST / "complete.json").unlink(), NEWEST, "is incomplete"),
    "frames": (lambda run: flip(run / "replay" / "frames.u8", 1000), "replay", r"frames.u8, frames 0 to 4\d"),
    "rewards": (lambda run: flip(run / "replay" / "rewards.f32", 9), "replay", "rewards.f32"),
    "replay manifest": (lambda run: (run / "replay" / "replay.json").unlink(), "replay", "is missing"),
    "log shorter": (cut, "eval.jsonl", "7 of the .* missing"),
    "log flipped": (lambda run: flip(run / "eval.jsonl", 14), "eval.jsonl", "have changed since they were written"),
    "log row": (garble_row, "train.jsonl", "row 2 cannot be read"),
    "log longer": (append("timing.jsonl", b"{}\n"), "timing.jsonl", "3 bytes were written after"),
    "log gone": (lambda run: (run / "train.jsonl").unlink(), "train.jsonl", "is missing"),
    "status state": (edit("status.json", state="done"), "status.json", "must be one of .* got 'done'"),
    "status decisions": (
        edit("status.json", decisions=60),
        "status.json",
        "finished at 60 decisions, .* but .* at 40 decisions",
    ),
    "status frames": (
        edit("status.json", frames=1),
        "status.json",
        "1 frames, .* but the last checkpoint is at 40 deci",
    ),
    "status text": (edit("status.json", updates="many"), "status.json", "finished at unknown counts"),
    "versions edited": (
        lambda run: (run / "versions.json").write_text('[{"torch": "1.0"}]'),
        "versions.json",
        "was edited or damaged after checkpoint 000000040",
    ),
    "versions gone": (lambda run: (run / "versions.json").unlink(), "versions.json", "a resume restores it"),
    "a pipe": (lambda run: os.mkfifo(run / "video.fifo"), "video.fifo", "a pipe, a socket or a device"),
    "log linked": (link("train.jsonl"), "train.jsonl", "symbolic link"),
    "replay linked": (link("replay"), "replay", "symbolic link"),
}


QUICK = (
    "config edited",
    "tensors",
    "rewards",
    "log row",
    "status decisions",
    "status frames",
    "versions edited",
    "a pipe",
    "replay linked",
)


@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k in QUICK else pytest.mark.slow) for k in DAMAGE])
def test_damage_is_found_by_name_and_nothing_is_changed(
    kind: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, file, says = DAMAGE[kind]
    damage(run)
    before = contents(run)
    assert main(["verify", str(run)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"{run}: {file}: ") for line in lines), lines
    assert re.search(says, "\n".join(lines)), lines
    assert not any("ok" in line.split(": ")[1:] for line in lines)
    assert contents(run) == before


def test_a_whole_run_is_whole_and_nothing_is_changed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(run)
    assert main(["verify", str(run)]) == 0
    assert capsys.readouterr().out == f"{run}: ok\n"
    assert main(["verify", str(run.parent)]) == 0, "a directory of runs"
    assert capsys.readouterr().out == f"{run}: ok\n"
    assert contents(run) == before


NOTES: dict[str, tuple[Callable[[Path], object], str]] = {
    "temporary": (lambda run: (run / ".status.json.123").touch(), "left behind by a killed process"),
    "unfinished checkpoint": (lambda run: (run / "checkpoints/.writing-9").mkdir(), "left behind by a killed process"),
    "manifest": (lambda run: (run / "replay/.replay.json.9").touch(), "left behind by a killed process"),
    "killed": (edit("status.json", state="running"), "no process is using the run"),
    "foreign file": (lambda run: (run / "notes.txt").touch(), "notes.txt: note: is not a file of a run"),
    "foreign directory": (
        lambda run: shutil.copytree(run / "checkpoints", run / "replay" / "old"),
        "replay/old: note: is not a file of a run",
    ),
    "second name": (
        lambda run: os.link(run / "eval.jsonl", run.parent / "eval.jsonl"),
        "eval.jsonl: note: has a second name",
    ),
    "budget raised": (edit("config.json", decisions=60), "finished at decision 40 of 60; a resume continues"),
    "replay discarded": (lambda run: shutil.rmtree(run / "replay"), "the run cannot be extended"),
    "only logs": (lambda run: shutil.rmtree(run / "checkpoints"), "logs cannot be verified"),
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(k, marks=() if k in ("temporary", "killed", "foreign file", "second name") else pytest.mark.slow)
        for k in NOTES
    ],
)
def test_notes_are_no_damage(kind: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, says = NOTES[kind]
    change(run)
    before = contents(run)
    assert main(["verify", str(run)]) == 0
    said = capsys.readouterr().out
    assert says in said
    assert said.endswith(f"{run}: ok\n")
    assert contents(run) == before


def test_other_versions_are_a_note(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pamd.runs.verify.versions", lambda: {**versions(), "torch": "9.0"})
    assert main(["verify", str(run)]) == 0
    assert "here '9.0': a resume may not be bit-exact" in capsys.readouterr().out


def test_a_resume_restores_versions_from_the_checkpoint(run: Path) -> None:
    before = (run / "versions.json").read_bytes()
    (run / "versions.json").write_text('[{"torch": "1.0"}]')
    resume(run, decisions=42)
    assert (run / "versions.json").read_bytes() == before


def test_a_resume_does_not_write_through_hard_links(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy, copy_function=os.link)  # cp -al
    before = contents(copy)
    resume(run, decisions=60)
    assert contents(copy) == before
    assert not verify_run(run)
    assert not [finding for finding in verify_run(copy) if not finding.harmless]


def test_a_live_run_is_left_alone(run: Path) -> None:
    with RunDirectory.open(run).locked():
        (finding,) = verify_run(run)
        assert "in use by another process" in finding.problem


def test_what_a_kill_left_behind_is_harmless_and_a_resume_cleans_it_up(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit("config.json", decisions=60)(run)
    edit("status.json", state="running")(run)
    (run / ".config.json.7").touch()
    (run / "checkpoints" / ".writing-7").mkdir()
    append("train.jsonl", b'{"half a ro')(run)
    assert main(["verify", str(run)]) == 0
    assert "a resume removes it" in capsys.readouterr().out
    resume(run)
    assert {name: products(run)[name] for name in ("train", "tensors")} == {
        name: undisturbed(toy())[name] for name in ("train", "tensors")
    }
    assert main(["verify", str(run)]) == 0
    assert capsys.readouterr().out == f"{run}: ok\n"


def test_a_broken_checkpoint_is_passed_over_by_a_resume(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(run / NEWEST / "state.json", 10)
    assert main(["verify", str(run)]) == 1
    assert "but the last checkpoint is at 30 decisions" in capsys.readouterr().out
    resume(run, decisions=60)
    assert products(run) == undisturbed(toy())  # It continued before the evaluation at 40.


def test_repair_is_refused_with_what_to_do_instead(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(run), "--repair"]) == 2
    assert "`pamd resume RUN`" in capsys.readouterr().err


def test_verify_needs_no_torch(run: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pamd.cli.main import main;"
        "assert main(['verify', sys.argv[1]]) == 0; assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_no_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path)]) == 2
    assert f"{tmp_path} is not a run directory and contains none" in capsys.readouterr().err
    (tmp_path / "runs").mkdir()
    assert main(["verify", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err == f"pamd: {tmp_path}/run does not exist; near: runs\n"
    assert main(["verify", str(Path(__file__))]) == 2
    assert capsys.readouterr().err.startswith(f"pamd: {__file__} cannot be read as a campaign")


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["unfinished", "whole"])
def test_a_line_of_a_gigabyte_is_refused_before_it_fills_the_memory(
    end: bytes, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open(run / "eval.jsonl", "ab") as file:
        file.truncate(os.fstat(file.fileno()).st_size + 2**30)
        file.write(end)
    said = "is damaged: a row has at most 16,777,216 bytes, it has more"
    tracemalloc.start()
    try:
        (finding,) = [finding for finding in verify_run(run) if not finding.harmless]
        (run / "status.json").unlink()  # a finished run is not resumed
        for reader in (read_record, resume):
            with pytest.raises(RunError, match=said):
                reader(run)
        assert tracemalloc.get_traced_memory()[1] < 2**28
    finally:
        tracemalloc.stop()
    assert finding.file == "eval.jsonl"
    assert said in finding.problem
    assert main(["verify", str(run)]) == 1
    assert said in capsys.readouterr().out
