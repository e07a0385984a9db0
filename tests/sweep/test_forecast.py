"""Forecasts of sweeps, from defaults and from existing runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.sweep.sweeps import toys

from pamd.cli.main import main
from pamd.cli.sweep import Execution, _combinations, plan_jobs
from pamd.configuration import configure
from pamd.replay import forecast
from pamd.sweep import BACKENDS, Resources, plan
from pamd.sweep.forecast import ACTIONS, PROCESS, RATES
from pamd.training.config import Runtime, config_text, run_name
from pamd.training.session import replay_plan

PAPER = [("simsr+pamd", configure("cheetah_run", "simsr+pamd", seed=seed, storage="memory")) for seed in range(3)]


def test_memory_is_of_those_at_a_time_and_disk_of_all(tmp_path: Path) -> None:
    made, found = plan_jobs(PAPER, tmp_path, Execution(resources=Resources(workers=2, threads=1)))
    capacity, margin = replay_plan(made[0].config)
    one = forecast(capacity, (3, 84, 84), ACTIONS, margin)
    assert 21e9 < one.bytes_memory < 23e9
    assert found.memory == 2 * (one.bytes_memory + PROCESS["paper"])
    assert found.disk == 3 * one.bytes_disk
    assert plan(made, 2, 1, discard_replay=True).disk == 2 * one.bytes_disk
    # Three million decisions, two at a time, each at half the rate of two cores; evaluations add a few per cent.
    assert found.seconds == pytest.approx(3e6 / RATES["paper", "sequential"], rel=0.05)


def test_runs_that_were_made_are_the_better_measure(tmp_path: Path) -> None:
    made, before = plan_jobs(PAPER, tmp_path, Execution(resources=Resources(workers=1, threads=2)))
    assert "pamd bench" in before.sources[0]
    made[0].path.mkdir()
    (made[0].path / "config.json").write_text(config_text(made[0].config))
    row = {"decisions": 500_000, "seconds": 10_000.0}
    (made[0].path / "timing.jsonl").write_text(json.dumps(row) + "\n")
    (made[0].path / "status.json").write_text(json.dumps({"state": "interrupted", "decisions": 500_000}))
    after = plan(made, 1, 2)
    assert after.sources == ("paper sequential: 1 run in the same directory",)
    assert after.decisions == 2_500_000
    assert after.seconds == pytest.approx(2.5e6 / 50, rel=0.1)
    # Another number of threads is another rate.
    assert "pamd bench" in plan(made, 1, 1).sources[0]


def test_finished_runs_take_nothing(tmp_path: Path) -> None:
    made = toys(tmp_path, [0, 1])
    whole = plan(made, 2, 1)
    made[0].path.mkdir()
    (made[0].path / "status.json").write_text('{"state": "finished", "decisions": 60}')
    left = plan(made, 2, 1)
    assert (whole.finished, left.finished, left.decisions) == (0, 1, 60)
    assert left.disk == whole.disk / 2


def test_too_much_memory_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pamd.cli.sweep.available_memory", lambda: 30_000_000_000)
    words = ["sweep", "--tasks", "toy", "--methods", "sac", "--seeds", "0", "1", "--workers", "2"]
    assert main([*words, "--storage", "memory", "--runs", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err
    assert "2 runs at a time require" in said
    assert "--storage mmap" in said
    assert not (tmp_path / "runs").exists()
    for storage in ("mmap", "auto"):  # Two replays of 22 GB do not fit at the same time, so both are files.
        assert main([*words, "--plan", "--storage", storage, "--runs", str(tmp_path / "runs")]) == 0
        assert "memory 2." in capsys.readouterr().err


@pytest.mark.parametrize("backend", ["local", "ray", "slurm"])
def test_every_backend_has_the_same_number_of_threads(backend: str, tmp_path: Path) -> None:
    for execution in (Execution(backend), Execution(backend, Resources(workers=1))):
        made, found = plan_jobs(PAPER, tmp_path, execution)
        assert {job.config.runtime.threads for job in made} == {found.threads} == {1}
    made, found = plan_jobs(PAPER, tmp_path, Execution(backend, Resources(threads=2)))
    assert {job.config.runtime.threads for job in made} == {found.threads} == {2}


def test_the_number_of_runs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pamd.sweep.backends.cores", lambda: 8)
    local, slurm = BACKENDS.get("local"), BACKENDS.get("slurm")
    assert local.concurrent(Resources(workers=3, threads=2), 9) == 3
    assert local.concurrent(Resources(threads=2), 9) == 4
    assert local.concurrent(Resources(threads=16), 9) == 1
    assert local.concurrent(Resources(), 2) == 2
    assert slurm.concurrent(Resources(), 40) == 40


def test_what_is_asked_for_twice_is_planned_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "--tasks", "toy", "--methods", "sac", "--scale", "smoke", "--seeds", "0", "0"]
    assert main([*words, "--plan", "--runs", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert "1 run, 0 of them finished" in said
    assert "1 at a time" in said


def test_vary_plans_every_combination(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "--tasks", "toy", "--methods", "simsr+pamd", "--scale", "smoke", "--seeds", "0", "1", "--plan"]
    words += ["--vary", "method.latent_dim=20,50,100", "--vary", "learner.hidden=16,32", "--runs", str(tmp_path)]
    assert main(words) == 0
    said = capsys.readouterr().err
    assert "12 runs, 0 of them finished" in said
    assert "simsr+pamd (method.latent_dim=20, learner.hidden=16)" in said
    assert "simsr+pamd (method.latent_dim=100, learner.hidden=32)" in said


def test_values_of_vary_may_be_json() -> None:
    assert _combinations(['a.b=[1,2],"x,y",null', "c=1"]) == [
        ("a.b=[1,2]", "c=1"),
        ('a.b="x,y"', "c=1"),
        ("a.b=null", "c=1"),
    ]
    assert _combinations([]) == [()]


@pytest.mark.parametrize("words", ["method.latent_dim", "=1,2", "method.latent_dim=", "method.latent_dim=20,,50"])
def test_vary_that_is_none_is_refused(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--tasks", "toy", "--methods", "sac", "--vary", words, "--runs", str(tmp_path / "no")]) == 2
    assert "--vary takes KEY=A,B,C" in capsys.readouterr().err


def test_a_sweep_labels_its_runs_and_keeps_their_names(tmp_path: Path) -> None:
    plain = configure("toy", "sac", scale="smoke")
    labeled = configure("toy", "sac", scale="smoke", runtime=Runtime(label="mine"))
    (job,), _ = plan_jobs([("sac", labeled)], tmp_path, Execution())
    assert job.config.runtime.label == "mine"
    assert job.name == run_name(plain)
