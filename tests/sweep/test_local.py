"""Sweeps on real processes: killed, interrupted, broken, and still the same results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.sweep.sweeps import Eyes, Killer, toys
from tests.training.runs import products

from pamd.cli.main import main
from pamd.sweep import BACKENDS, Resources, Sweep
from pamd.training import train
from pamd.training.config import read_config

LOCAL = Resources(workers=2, threads=1)


def test_a_killed_worker_is_tried_again_and_ends_like_one_undisturbed(tmp_path: Path) -> None:
    victim, other = toys(tmp_path / "swept", [0, 1], decisions=80)
    eyes = Eyes(killer := Killer(victim.path))
    runs = Sweep([victim, other], lambda: BACKENDS.get("local")(LOCAL), eyes).run()
    assert killer.killed
    assert [(run.state, run.attempts) for run in runs] == [("finished", 2), ("finished", 1)]
    assert products(victim.path) == products(train(victim.config, tmp_path / "straight"))


WORDS = ["sweep", "--tasks", "toy", "--scale", "smoke", "--workers", "1", "--threads", "1", "--decisions", "160"]
WORDS += ["--methods", "sac", "--seeds", "0", "1", "--set", "checkpoint_every=20", "env.time_limit=9"]


def start(runs: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "pamd", *WORDS, "--runs", str(runs)]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)


def states(runs: Path) -> dict[str, str]:
    found = {}
    for file in sorted(runs.glob("*/status.json")):
        found[file.parent.name.split("_")[2]] = json.loads(file.read_text())["state"]
    return found


def wait_for(process: subprocess.Popen[str], runs: Path, wanted: dict[str, str]) -> None:
    while states(runs) != wanted:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_ctrl_c_and_a_killed_driver_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    runs = tmp_path / "swept"
    first = start(runs)
    wait_for(first, runs, {"s0": "running"})
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=180)
    assert first.returncode == 130
    assert "rerun the same command to continue" in said
    assert states(runs) == {"s0": "interrupted"}

    second = start(runs)
    wait_for(second, runs, {"s0": "finished", "s1": "running"})
    (finished,) = runs.glob("*_s0_*")
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}
    second.kill()
    second.communicate()

    third = start(runs)
    _, said = third.communicate(timeout=300)
    assert third.returncode == 0, said
    assert "2 of 2 runs finished (1 before this command)" in said
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()} == before
    for run in sorted(runs.glob("toy_*")):
        assert products(run) == products(train(read_config(run / "config.json"), tmp_path / "straight"))


def test_one_failing_run_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A file where the run directory of seed 0 should be.
    words = ["sweep", "--tasks", "toy", "--methods", "sac", "--seeds", "0", "1", "--scale", "smoke"]
    words += ["--decisions", "60", "--runs", str(tmp_path)]
    broken, whole = toys_named_by(words, capsys)
    broken.parent.mkdir(exist_ok=True)
    broken.write_text("in the way")
    assert main(words) == 1
    said = capsys.readouterr().err
    assert "1 of 2 runs finished" in said
    assert f"failed: {broken}" in said
    assert "cannot create the run directory" in said
    assert (whole / "eval.jsonl").is_file()


def toys_named_by(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[Path]:
    """The run directories that a command would make."""
    from pamd.configuration import configure
    from pamd.sweep import jobs

    runs = Path(words[-1])
    assert main([*words, "--plan"]) == 0
    assert "2 runs, 0 of them finished" in capsys.readouterr().err
    assert not any(runs.iterdir())
    configs = [configure("toy", "sac", scale="smoke", seed=seed, decisions=60) for seed in (0, 1)]
    return [job.path for job in jobs([("sac", config) for config in configs], runs)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--tasks", "cheetah_rnu"], "cheetah_run"),
        (["--methods", "simsr+pmad"], "'pamd'"),
        (["--backend", "slrum"], "Did you mean 'slurm'"),
        (["--workers", "0"], "workers must be"),
        (["--address", "head:6379"], "--backend ray"),
        (["--retries", "-1"], "retries"),
    ],
)
def test_bad_words_are_said_before_anything_starts(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"--tasks": ["toy"], "--methods": ["sac"], "--scale": ["smoke"], words[0]: words[1:]}
    flat = [word for name, values in given.items() for word in (name, *values)]
    assert main(["sweep", *flat, "--runs", str(tmp_path / "runs")]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("words", [["sweep", "--tasks", "toy", "--methods", "sac"], ["reproduce", "table1"]])
def test_the_directory_of_runs_has_one_name(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--plan", "--root", "elsewhere"]) == 2
    assert "unknown option --root; use --runs" in capsys.readouterr().err


def test_finished_replays_can_be_discarded(tmp_path: Path) -> None:
    job = toys(tmp_path, [0])[0]
    train(job.config, tmp_path)
    assert (job.path / "replay").is_dir()
    Sweep([job], lambda: BACKENDS.get("local")(LOCAL), Eyes(), discard_replay=True).run()
    assert not (job.path / "replay").exists()
    assert os.path.exists(job.path / "eval.jsonl")


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="the system does not divide time by session")
def test_the_niceness_of_a_sweep_counts_in_the_sessions_of_its_workers(tmp_path: Path) -> None:
    request, result = tmp_path / "request", tmp_path / "result"
    request.write_text(json.dumps(["{}", str(tmp_path / "nowhere")]))  # A run that fails at once.
    work = f"from pamd.sweep.worker import work; work({str(request)!r}, {str(result)!r}, str(os.getppid()))"
    code = f"import os; os.nice(7); {work}; print(open('/proc/self/autogroup').read())"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True, start_new_session=True)
    assert json.loads(result.read_text())[0] == "failed"
    assert done.stdout.split()[-2:] == ["nice", str(min(os.nice(0) + 7, 19))]
