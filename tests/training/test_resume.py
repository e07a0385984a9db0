"""Resume is exact: an interrupted run ends with the same weights and logs as an uninterrupted one."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.training.runs import products, toy, undisturbed

from pamd.envs.toy import Toy
from pamd.errors import CheckpointError, RunInterrupted
from pamd.runs.versions import processor
from pamd.schema import to_json
from pamd.training import TrainConfig, resume, train
from pamd.training.session import Session

SCRIPT = """
import sys, pathlib
from pamd.schema import from_json
from pamd.training import TrainConfig, train
train(from_json(TrainConfig, pathlib.Path(sys.argv[1]).read_text(), "config"), sys.argv[2])
"""


def start(config: TrainConfig, root: Path) -> subprocess.Popen[bytes]:
    file = root.parent / f"{root.name}.json"
    file.write_text(to_json(config))
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(file), str(root)], stderr=subprocess.PIPE)


def only(root: Path) -> Path:
    (run,) = (p for p in root.iterdir() if p.is_dir())
    return run


@pytest.mark.parametrize(
    ("storage", "method"),
    [
        pytest.param("memory", "simsr+pamd", marks=pytest.mark.slow),
        ("mmap", "mico"),
        pytest.param("memory", "mico", marks=pytest.mark.slow),
        pytest.param("mmap", "simsr+pamd", marks=pytest.mark.slow),
        pytest.param("memory", "taco", marks=pytest.mark.slow),
        pytest.param("mmap", "mrq", marks=pytest.mark.slow),
    ],
)
def test_killed_at_arbitrary_moments(tmp_path: Path, storage: str, method: str) -> None:
    # A replay that wraps around several times, so that what was overwritten matters too.
    config = toy(method, storage=storage, capacity=25)
    straight = undisturbed(config)
    root, rng = tmp_path / "killed", np.random.default_rng(len(method) + len(storage))
    kills = 0
    for _ in range(40):
        begun, process = time.time(), start(config, root)
        # Wait until it is under way, however busy the machine, then for a random while: kills fall into steps,
        # evaluations and checkpoints.
        while process.poll() is None and not any(p.stat().st_mtime > begun for p in root.glob("*/status.json")):
            time.sleep(0.01)
        deadline = time.monotonic() + rng.uniform(0.0, 0.6)
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors.decode()
        if process.returncode == 0:
            break
        if kills == 5:  # enough: let it end
            resume(only(root))
            break
    assert kills >= 1
    assert products(only(root)) == straight


DEADLY = """
import os, pkgutil, signal, sys
owner, name, call = pkgutil.resolve_name(sys.argv[3]), sys.argv[4], int(sys.argv[5])
plain, count = getattr(owner, name), [0]
def deadly(*args, **kwargs):
    count[0] += 1
    if count[0] == call:
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(*args, **kwargs)
setattr(owner, name, deadly)
"""


@pytest.mark.parametrize(
    ("owner", "function", "call"),
    [
        ("pamd.replay.files:Manifest", "save", 4),
        ("pamd.atomic_io", "write", 17),
        pytest.param("pamd.atomic_io", "sync_directory", 9, marks=pytest.mark.slow),
        pytest.param("pamd.agent:Agent", "act", 25, marks=pytest.mark.slow),
        ("pamd.runs.logs:Logs", "write", 9),
        pytest.param("pamd.runs.logs:Logs", "state", 4, marks=pytest.mark.slow),
    ],
)
def test_killed_where_a_clock_may_miss(tmp_path: Path, owner: str, function: str, call: int) -> None:
    """Inside the sync of the replay, a checkpoint, its renaming, an evaluation, a log row."""
    config = toy(capacity=25)
    straight = undisturbed(config)
    root, file = tmp_path / "killed", tmp_path / "killed.json"
    file.write_text(to_json(config))
    words = [sys.executable, "-c", DEADLY + SCRIPT, str(file), str(root), owner, function, str(call)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert products(train(config, root)) == straight


def test_signals_checkpoint_and_resume(tmp_path: Path) -> None:
    config = dataclasses.replace(toy("sac", decisions=300, checkpoint_every=300, evaluate_every=300), log_every=100)
    straight = undisturbed(config)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        root = tmp_path / number.name
        process = start(config, root)
        while not (root.is_dir() and list(root.glob("*/train.jsonl"))):
            time.sleep(0.05)
            assert process.poll() is None
        time.sleep(0.5)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert b"RunInterrupted" in errors
        run = only(root)
        assert json.loads((run / "status.json").read_text())["state"] == "interrupted"
        assert products(resume(run)) == straight


class Ears:
    """Hears what is said, and asks the run to stop at a decision."""

    def __init__(self, stop_at: int | None = None, signals: Sequence[signal.Signals] = (signal.SIGINT,)) -> None:
        self.heard: list[str] = []
        self.stop_at, self.signals = stop_at, signals

    def progress(self, session: Session) -> None:
        if session.budget.decisions == self.stop_at:
            for number in self.signals:
                os.kill(os.getpid(), number)

    def say(self, message: str) -> None:
        self.heard.append(message)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_lost_terminal_or_a_shutdown_writes_a_checkpoint_even_if_it_says_so_twice(
    tmp_path: Path, number: signal.Signals
) -> None:
    config = toy("sac", checkpoint_every=50)
    with pytest.raises(RunInterrupted, match="stopped at decision 27"):
        train(config, tmp_path, Ears(27, [number, number]))
    run = only(tmp_path)
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["000000027"]
    assert products(resume(run)) == undisturbed(config)


def test_nohup_is_respected(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        run = train(toy("sac"), tmp_path, Ears(27, [signal.SIGHUP]))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert json.loads((run / "status.json").read_text())["state"] == "finished"


HANG_UP = """
import os, pty, signal, sys, time
from pathlib import Path
pid, master = pty.fork()
if not pid:
    os.execv(sys.executable, [sys.executable, "-m", "pamd", *sys.argv[2:], "--runs", sys.argv[1]])
os.set_blocking(master, False)
while not any(Path(sys.argv[1]).glob("*/train.jsonl")):
    time.sleep(0.1)
    try:
        os.read(master, 65536)
    except BlockingIOError:
        pass
time.sleep(1)
os.close(master)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.slow
def test_a_command_whose_terminal_is_lost_ends_with_a_checkpoint(tmp_path: Path) -> None:
    words = ["train", "toy", "--method", "sac", "--scale", "smoke", "--decisions", "9000", "--checkpoint-every", "9000"]
    done = subprocess.run([sys.executable, "-c", HANG_UP, str(tmp_path), *words], check=False, timeout=120)
    assert done.returncode == 130
    run = only(tmp_path)
    status = json.loads((run / "status.json").read_text())
    assert status["state"] == "interrupted"
    assert [int(path.name) for path in (run / "checkpoints").iterdir()] == [status["decisions"]]


def test_another_number_of_threads_is_said_once(tmp_path: Path) -> None:
    config = toy("sac")
    two = dataclasses.replace(config.runtime, threads=2)
    with pytest.raises(RunInterrupted):
        train(config, tmp_path, Ears(22))
    run = only(tmp_path)
    heard = []
    for runtime, stop_at in ((config.runtime, 24), (two, 27), (two, None)):
        ears = Ears(stop_at)
        if stop_at:
            with pytest.raises(RunInterrupted):
                resume(run, runtime, ears)
        else:
            resume(run, runtime, ears)
        heard.append([line for line in ears.heard if "continues with" in line])
    assert [len(lines) for lines in heard] == [0, 1, 0]
    assert "used 1 and continues with 2" in heard[1][0]
    assert "--threads 1 keeps" in heard[1][0]


def test_another_processor_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunInterrupted):
        train(toy("sac"), tmp_path, Ears(22))
    monkeypatch.setattr("pamd.training.run.processor", lambda: "Abacus 3000")
    ears = Ears(None)
    resume(only(tmp_path), None, ears)
    (line,) = (line for line in ears.heard if "continues with" in line)
    assert line.startswith(f"processor: the run used {processor()!r} and continues with 'Abacus 3000'")


def cut(data: bytes) -> bytes:
    return data[:-7]


def flip(data: bytes) -> bytes:
    return data[:50] + bytes([data[50] ^ 1]) + data[51:]


def empty(data: bytes) -> bytes:
    return b""


FILES = ["tensors.safetensors", "state.json", "complete.json"]
QUICK = [("tensors.safetensors", flip), ("complete.json", cut)]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        pytest.param(name, damage, marks=() if (name, damage) in QUICK else pytest.mark.slow)
        for name in FILES
        for damage in (cut, flip, empty)
    ],
)
def test_a_damaged_newest_checkpoint_falls_back_and_says_so(
    tmp_path: Path, name: str, damage: Callable[[bytes], bytes]
) -> None:
    config = toy(checkpoint_every=15)
    straight = undisturbed(config)
    with pytest.raises(RunInterrupted):
        train(config, tmp_path / "damaged", Ears(stop_at=35))
    run = only(tmp_path / "damaged")
    file = run / "checkpoints" / "000000035" / name
    file.write_bytes(damage(file.read_bytes()))
    ears = Ears()
    assert products(resume(run, observer=ears)) == straight
    assert "000000035" in ears.heard[0]
    assert "using the previous checkpoint" in ears.heard[0]
    assert "000000030" in ears.heard[1]


def test_no_whole_checkpoint_is_an_error_and_not_a_fresh_start(tmp_path: Path) -> None:
    with pytest.raises(RunInterrupted):
        train(toy(), tmp_path, Ears(stop_at=35))
    run = only(tmp_path)
    for tensors in (run / "checkpoints").glob("*/tensors.safetensors"):
        tensors.write_bytes(b"")
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        resume(run)


def test_a_checkpoint_cannot_execute_anything() -> None:
    """No pickle on the way: nothing in training or replay reads or writes one."""
    import pamd

    for source in Path(pamd.__file__).parent.rglob("*.py"):
        text = source.read_text()
        text = text.replace("allow_pickle=False", "")
        assert "pickle" not in text or source.name == "checkpoint.py", source
        assert "torch.load(" not in text, source
        assert "torch.save(" not in text, source


def test_an_environment_that_is_not_deterministic_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunInterrupted):
        train(toy("sac"), tmp_path, Ears(stop_at=33))
    same, other = Ears(stop_at=35), Ears()
    with pytest.raises(RunInterrupted):
        resume(only(tmp_path), observer=same)
    assert not any("not deterministic" in message for message in same.heard)
    begin = Toy.begin
    monkeypatch.setattr(Toy, "begin", lambda self, seed: begin(self, seed + 1))
    resume(only(tmp_path), observer=other)
    (message,) = (message for message in other.heard if "not deterministic" in message)
    assert re.search(r"resume: \d[\d.]*% of the restored observation differ", message)
