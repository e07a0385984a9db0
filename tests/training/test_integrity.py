"""Edited run directories are refused with specific errors, and malformed checkpoints are replaced by older ones."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.training.runs import QUIET, edit_config, products, toy, undisturbed

from pamd.cli.main import main
from pamd.errors import CheckpointError, PamdError, ReplayError, ResourceError, RunError, RunInterrupted
from pamd.runs import read_progress
from pamd.settings import override
from pamd.training import RunDirectory, load, loop, resume, train
from pamd.training.session import Session

LOCK_FILE = "pamd.runs.directory._create_lock_file"


class Listener:
    def __init__(self) -> None:
        self.said: list[str] = []

    def progress(self, session: Any) -> None:
        pass

    def say(self, message: str) -> None:
        self.said.append(message)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 60 decisions that stopped at 40."""
    run = train(toy(decisions=40), tmp_path_factory.mktemp("runs"))
    config = json.loads((run / "config.json").read_text())
    config["decisions"] = 60
    status = json.loads((run / "status.json").read_text())
    (run / "config.json").write_text(json.dumps(config))
    (run / "status.json").write_text(json.dumps({**status, "state": "interrupted"}))
    return run


@pytest.fixture
def run(interrupted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(interrupted, tmp_path / interrupted.name))


def rewrite_state(run: Path, change: Callable[[dict[str, Any]], Any], which: int = -1) -> None:
    """Change state.json of a checkpoint, digest included: what is left to find is what it says."""
    place = sorted((run / "checkpoints").iterdir())[which]
    state = json.loads((place / "state.json").read_text())
    changed = change(state)
    text = json.dumps(state if changed is None else changed).encode()
    (place / "state.json").write_bytes(text)
    digests = json.loads((place / "complete.json").read_text())
    digests["state.json"] = hashlib.sha256(text).hexdigest()
    (place / "complete.json").write_text(json.dumps(digests))


@pytest.mark.parametrize("name", ["train", "eval", "timing"])
def test_a_log_that_lost_or_changed_bytes_is_refused_with_what_is_wrong(run: Path, name: str) -> None:
    log = run / f"{name}.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[:-7])
    with pytest.raises(
        RunError, match=rf"{name}.jsonl was edited or damaged: 7 of the {len(whole)} bytes .* are missing"
    ):
        resume(run)
    log.write_bytes(whole[:3] + bytes([whole[3] ^ 1]) + whole[4:])
    with pytest.raises(
        RunError, match=rf"{name}.jsonl was edited or damaged: its first .* have changed since they were written"
    ):
        resume(run)
    log.unlink()
    with pytest.raises(RunError, match=rf"{name}.jsonl is missing"):
        resume(run)
    log.write_bytes(whole + b"rows that came after the checkpoint\n")
    resume(run)


@pytest.mark.parametrize(
    ("field", "value"),
    [("learner.options.batch", 8), ("seed", 5), ("method.metric.distance.options.ridge", 1e-3), ("evaluate_every", 7)],
)
def test_an_edited_config_is_refused_by_field(run: Path, field: str, value: Any) -> None:
    edit_config(run, field, value)
    for action in (resume, load):
        with pytest.raises(RunError, match=f"config.json was edited .*{field} was .* and is {value!r}"):
            action(run)


def flip(path: Path, at: int) -> None:
    """Flip one bit of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1]))


MALFORMED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a list": lambda state: [],
    "no budget": lambda state: state.pop("budget") and None,
    "negative budget": lambda state: state["budget"].update(decisions=-1),
    "huge budget": lambda state: state["budget"].update(updates=10**40),
    "text for a number": lambda state: state.update(seconds="long ago"),
    "null metrics": lambda state: state.update(metrics=None),
    "another generator": lambda state: state.update(rng={"bit_generator": "MT19937"}),
    "no logs": lambda state: state.update(logs={}),
    "no config": lambda state: state.pop("config") and None,
    "an environment of numbers": lambda state: state.update(env=[1, 2]),
    "a replay without checksums": lambda state: state["replay"].pop("checks") and None,
    "deep nesting": lambda state: state.update(episode=json.loads("[" * 400 + "]" * 400)),
}


QUICK = ("a list", "negative budget", "no logs")


@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k in QUICK else pytest.mark.slow) for k in MALFORMED])
def test_a_malformed_state_gives_way_to_the_checkpoint_before(run: Path, kind: str) -> None:
    rewrite_state(run, MALFORMED[kind])
    listener = Listener()
    resume(run, observer=listener)
    assert any("000000040" in message and "using the previous checkpoint" in message for message in listener.said)
    assert products(run)["tensors"] == undisturbed(toy())["tensors"]
    assert products(run)["train"] == undisturbed(toy())["train"]


def test_where_every_checkpoint_is_malformed_nothing_starts_anew(run: Path) -> None:
    for which in (-1, -2):
        rewrite_state(run, MALFORMED["no budget"], which)
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        resume(run)


def test_names_that_are_no_checkpoints_are_passed_over(run: Path) -> None:
    for name in ("²²²", "99999999999999999999999", "-00000001", "000000099.bak"):
        (run / "checkpoints" / name).mkdir()
    (run / "checkpoints" / "000000999").symlink_to(run / "checkpoints" / "000000040")
    resume(run)
    assert (run / "train.jsonl").read_bytes() == undisturbed(toy())["train"]


@pytest.mark.parametrize("name", ["config.json", "train.jsonl", "checkpoints/000000040/state.json"])
def test_links_are_not_followed(run: Path, name: str, tmp_path: Path) -> None:
    file, elsewhere = run / name, tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    if name.startswith("checkpoints"):
        resume(run)  # from the checkpoint before
    else:
        with pytest.raises(Exception, match=r"symbolic link"):
            resume(run)
    assert elsewhere.read_bytes() == before


def test_what_killed_processes_left_is_removed(run: Path) -> None:
    left = [run / ".status.json.123", run / "checkpoints" / ".writing-123" / "tensors.safetensors"]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    resume(run)
    assert not any(path.exists() for path in left)
    assert not (run / "checkpoints" / ".writing-123").exists()


def test_the_lock_is_not_taken_twice_whatever_is_deleted(run: Path) -> None:
    with RunDirectory.open(run).locked():
        for file in run.iterdir():
            if file.is_file() and file.name != "config.json":
                file.unlink()
        with pytest.raises(RunError, match="in use"), RunDirectory.open(run).locked():
            pass


@pytest.mark.parametrize("name", ["train.jsonl", "eval.jsonl"])
def test_a_file_that_is_deleted_under_a_live_run_ends_it_as_failed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = loop.decide

    def decide(session: Session, clock: Any) -> None:
        if session.budget.decisions == 33:
            os.unlink(session.run.path / name)
        plain(session, clock)

    monkeypatch.setattr(loop, "decide", decide)
    with pytest.raises(RunError, match=f"{name} is missing"):
        train(toy(), tmp_path)
    (run,) = tmp_path.iterdir()
    status = json.loads((run / "status.json").read_text())
    assert status["state"] == "failed"
    assert name in status["error"]


def test_a_budget_below_what_was_done_is_refused(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "decisions": 30}))
    for action in (resume, load):
        with pytest.raises(RunError, match=r"config.json was edited .*decisions was at least 40 and is 30"):
            action(run)


@pytest.mark.parametrize("name", ["replay", "checkpoints"])
def test_a_linked_directory_is_refused_and_nothing_starts_anew(run: Path, name: str, tmp_path: Path) -> None:
    (run / name).mkdir(exist_ok=True)
    (run / name).rename(tmp_path / "elsewhere")
    (run / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=f"{name} is a symbolic link"):
        resume(run)


@pytest.mark.parametrize("storage", ["memory", pytest.param("mmap", marks=pytest.mark.slow)])
def test_a_flipped_byte_of_the_replay_is_refused_and_never_another_result(storage: str, tmp_path: Path) -> None:
    config = override(toy(decisions=30), [f"replay.storage={storage}"])
    run = train(config, tmp_path)
    flip(run / "replay" / "frames.u8", 5000)
    with pytest.raises(ReplayError, match=r"frames.u8, frames 0 to \d+ have changed since they were written"):
        resume(run, decisions=60)
    flip(run / "replay" / "frames.u8", 5000)
    resume(run)
    assert products(run)["train"] == undisturbed(toy())["train"]


def test_a_stop_before_the_last_evaluation_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last checkpoint is written again, with the evaluation that a resume made up for."""
    plain, expected = loop.decide, undisturbed(toy())

    def decide(session: Session, clock: Any) -> None:
        plain(session, clock)
        if session.budget.decisions == 60:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(loop, "decide", decide)
    with pytest.raises(RunInterrupted):
        train(toy(), tmp_path)
    (run,) = tmp_path.iterdir()
    state = run / "checkpoints" / "000000060" / "state.json"
    assert json.loads(state.read_text())["evaluated_at"] == 30
    resume(run)
    saved = json.loads(state.read_text())
    assert saved["evaluated_at"] == 60
    assert saved["logs"]["eval"]["bytes"] == len(expected["eval"])
    assert products(run) == expected


def test_a_full_disk_under_tensorboard_ends_the_run_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorboard.summary.writer.record_writer import RecordWriter

    plain, calls = RecordWriter.write, iter(range(5))

    def write(self: Any, data: bytes) -> None:
        if next(calls, None) is None:
            raise OSError(28, "No space left on device")
        plain(self, data)

    monkeypatch.setattr(RecordWriter, "write", write)
    with pytest.raises(ResourceError, match=r"tensorboard.*No space"):
        train(toy(runtime=dataclasses.replace(QUIET, tensorboard=True)), tmp_path)
    (run,) = tmp_path.iterdir()
    assert json.loads((run / "status.json").read_text())["state"] == "failed"


def test_without_flock_a_lock_file_names_host_and_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_flock(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_flock)
    listener, seen = Listener(), list[dict[str, Any]]()
    monkeypatch.setattr(
        listener, "progress", lambda session: seen.append(json.loads((session.run.path / ".lock").read_text()))
    )
    run = train(toy(decisions=40), tmp_path, listener)
    assert seen[0] == {"host": platform.node(), "pid": os.getpid()}
    (message,) = (message for message in listener.said if "lock" in message)
    assert message == f"{run}: its file system has no locks (No locks available); {run}/.lock locks the run instead"
    assert not (run / ".lock").exists()
    ended = subprocess.Popen(["true"])
    ended.wait()
    (run / ".lock").write_text(json.dumps({"host": platform.node(), "pid": ended.pid}))
    with RunDirectory.open(run).locked(), pytest.raises(RunError, match=f"process {os.getpid()} on {platform.node()}"):
        resume(run, decisions=60)
    (run / ".lock").write_text(json.dumps({"host": "elsewhere", "pid": ended.pid}))
    with pytest.raises(RunError, match=rf"by process {ended.pid} on elsewhere, .* delete {re.escape(str(run))}/\.lock"):
        resume(run, decisions=60)


@pytest.mark.parametrize("function", ["fcntl.flock", LOCK_FILE, "os.replace"])
def test_a_new_run_that_cannot_be_locked_or_written_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error") if function != LOCK_FILE else ResourceError("cannot lock")

    if function == LOCK_FILE:
        monkeypatch.setattr("pamd.runs.directory._flock", lambda handle, path: "No locks available")
    monkeypatch.setattr(function, fail)
    with pytest.raises(ResourceError, match=r"cannot (lock|write)"):
        train(toy(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def socket_file(path: Path) -> None:
    os.mknod(path, 0o600 | stat.S_IFSOCK)


SPECIAL = (
    *("config.json", "status.json", "versions.json", "train.jsonl", "eval.jsonl", "timing.jsonl"),
    *("checkpoints/000000040/state.json", "checkpoints/000000040/tensors.safetensors"),
    *("replay/replay.json", "replay/rewards.f32", "replay/frames.u8", "diagnostics/x/section.json"),
)


@pytest.mark.parametrize("make", [os.mkfifo, pytest.param(socket_file, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in ("train.jsonl", "replay/frames.u8") else pytest.mark.slow) for n in SPECIAL],
)
def test_a_special_file_is_named_and_blocks_nothing(
    run: Path, name: str, make: Callable[[Path], None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).unlink(missing_ok=True)
    make(run / name)
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(20)
    try:
        assert main(["verify", str(run)]) == 1
        assert name.partition("/")[0] in capsys.readouterr().out
        main(["report", str(run), "--out", str(tmp_path / "report")])
        read_progress(run)
        for command in (load, resume):
            with contextlib.suppress(PamdError):
                command(run)
    finally:
        signal.alarm(0)
