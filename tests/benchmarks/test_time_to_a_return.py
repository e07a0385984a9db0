"""Time to a return, from synthetic logs and from a run that is stopped. No test looks at a time that was measured."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.__main__ import main
from benchmarks.common import Options
from benchmarks.learning import (
    METHODS,
    SETTINGS,
    TASKS,
    Entry,
    Outcome,
    Point,
    make_config,
    make_table,
    outcome,
    points,
    read_points,
    settings_of,
    train_all,
)
from torch import nn

from benchmarks import learning, rivals
from pamd.configuration import configure
from pamd.errors import UnknownNameError
from pamd.sweep import Job, jobs
from pamd.training import Runtime

BEST = {"cartpole_swingup": 868, "reacher_easy": 982, "finger_spin": 985, "walker_walk": 970}
"""The best of four peers at a million frames (docs/performance.md)."""


def evaluation(decisions: int, mean: float) -> dict[str, Any]:
    return {"decisions": decisions, "frames": 8 * decisions, "return_mean": mean}


def timing(decisions: int, seconds: float, **shares: float) -> dict[str, Any]:
    return {"decisions": decisions, "seconds": seconds, **shares}


def test_training_time_leaves_out_evaluations_and_checkpoints() -> None:
    found = points(
        [evaluation(0, 1.0), evaluation(1000, 2.0), evaluation(2000, 3.0)],
        [
            timing(500, 10.0, evaluation=0.5, update=0.5, cpu=2.0),
            timing(1000, 20.0, update=0.9, cpu=0.5),
            timing(1500, 120.0, evaluation=0.6, checkpoint=0.1),
            timing(2000, 130.0),
            timing(2500, 999.0),
        ],
    )
    assert [point.seconds for point in found] == pytest.approx([0, 15, 55])
    assert [point.cpu_seconds for point in found] == pytest.approx([0, 15, 55])
    assert found[2] == Point(found[2].seconds, found[2].cpu_seconds, 2000, 16000, 3.0)


CURVE = [Point(60.0 * k, 50.0 * k, 1000 * k, 8000 * k, mean) for k, mean in enumerate([0, 10, 30, 20, 90])]


def test_the_first_evaluation_that_has_the_return_counts() -> None:
    found = outcome(CURVE, threshold=30, limit=600, budget=10_000)
    assert (found.state, found.point) == ("reached", CURVE[2])
    # A minute each of 0 and 10, then it stays at 30 to the end of the ten minutes.
    assert found.area == pytest.approx((0 + 10 + 8 * 30) / 10)


@pytest.mark.parametrize(
    ("limit", "budget", "state", "last", "area"),
    [
        (600, 10_000, "unfinished", 4, (0 + 10 + 30 + 20 + 6 * 90) / 10),
        (240, 10_000, "limit", 4, (0 + 10 + 30 + 20) / 4),
        (210, 10_000, "limit", 3, (0 + 10 + 30 + 0.5 * 20) / 3.5),
        (600, 4_000, "budget", 4, (0 + 10 + 30 + 20 + 6 * 90) / 10),
    ],
)
def test_a_run_without_the_return_is_cut_off(limit: float, budget: int, state: str, last: int, area: float) -> None:
    found = outcome(CURVE, threshold=100, limit=limit, budget=budget)
    assert (found.state, found.point) == (state, CURVE[last])
    assert found.area == pytest.approx(area)


def test_a_return_after_the_limit_does_not_count() -> None:
    assert outcome(CURVE, threshold=90, limit=239, budget=10_000).state == "limit"
    assert outcome([], threshold=1, limit=60, budget=10).state == "unfinished"


def ended(seconds: float, state: Any = "reached") -> Outcome:
    return Outcome(state, Point(seconds, seconds / 2, int(seconds), 8 * int(seconds), 12.0), 7.0)


def test_the_table_has_medians_ranges_and_what_is_longer_than_the_limit() -> None:
    runs = {
        ("new", "sac"): [ended(600), ended(1200), ended(60)],
        ("old", "sac"): [ended(3600, "limit"), ended(1800), ended(3600, "limit")],
        ("old", "mico"): [ended(3600, "limit"), ended(100, "unfinished")],
    }
    entries = [Entry("t", *key, seed, one) for key, ends in runs.items() for seed, one in enumerate(ends)]
    rows = make_table(entries, {"t": 5.0}, 3600).records()
    assert [row["minutes"] for row in rows] == ["10.0 (1.0 to 20.0)", "> 60 (30.0 to > 60)", "> 60"]
    assert [row["reached"] for row in rows] == ["3 of 3", "1 of 3", "0 of 1 (1 unfinished)"]
    assert rows[0]["CPU minutes"] == "5.0 (0.5 to 10.0)"
    assert rows[1]["decisions"] == "— (1800 to —)"
    assert rows[1]["minutes, each seed"] == "> 60, 30.0, > 60"
    assert rows[2]["decisions"] == "—"
    assert rows[0]["area"] == "7.0 ± 0.0 (n=3)"
    assert rows[0]["return at the end"] == "12.0 ± 0.0 (n=3)"
    assert {row["SB3 / this"] for row in rows} == {"—"}


def test_ratios_are_to_the_faster_agent_of_sb3() -> None:
    runs = {
        ("cpu", "sac"): [ended(600), ended(60), ended(120)],
        ("cpu", "deepmdp"): [ended(3600, "limit")],
        ("SB3, 84x84", "sac"): [ended(3600, "limit"), ended(3600, "limit"), ended(1200)],
        ("SB3, our sizes", "sac"): [ended(300)],
    }
    entries = [Entry("t", *key, seed, one) for key, ends in runs.items() for seed, one in enumerate(ends)]
    rows = make_table(entries, {"t": 5.0}, 3600).records()
    assert [row["SB3 / this"] for row in rows] == ["2.5", "< 0.1", "< 0.1", "1.0"]
    slow = [entry for entry in entries if entry.setting != "SB3, our sizes"]
    assert [row["SB3 / this"] for row in make_table(slow, {"t": 5.0}, 3600).records()] == ["> 30.0", "—", "—"]


def test_thresholds_are_at_least_two_fifths_of_the_best_peer() -> None:
    assert {*BEST, *(f"state:{task}" for task in BEST)} == TASKS.keys()
    best = {task: BEST[task.removeprefix("state:")] for task in TASKS}
    assert all(0.4 * best[task] <= wanted <= 0.5 * best[task] for task, wanted in TASKS.items())


def test_the_setting_of_version_0_2_is_frozen() -> None:
    config = make_config("finger_spin", "cpu-0.2", "simsr+pamd", 0)
    assert (config.env.size, config.env.render, config.schedule) == (48, "fast", "joint")
    assert (config.env.antialias, config.encoder.options.input) == (1, "frames")
    assert (config.encoder.options.strides, config.encoder.options.filters) == ((3, 2, 1, 1), 32)
    assert (config.learner.options.batch, config.learner.options.augmentation.name) == (64, "none")


@pytest.mark.parametrize("task", TASKS)
def test_settings_differ_in_nothing_that_the_measure_reads(task: str) -> None:
    chosen = [name for name in settings_of(task, ("cpu", "cpu-0.2", "state")) if name in SETTINGS]
    for method in METHODS:
        configs = [make_config(task, setting, method, 0) for setting in chosen]
        for name in ("decisions", "evaluate_every", "evaluate_unit", "evaluate_episodes", "log_every", "runtime"):
            assert len({getattr(config, name) for config in configs}) == 1
        assert all(config.evaluate_every % config.log_every == 0 for config in configs)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--tasks", "cheetah_run"], "task of the benchmark learning"),
        (["--settings", "cpus"], "Did you mean 'cpu'"),
        (["--methods", "simsr+pam"], "Did you mean 'pamd'"),
        (["--limit-minutes", "0"], "must be positive"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_trained(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["learning", "--runs", str(tmp_path / "runs"), *words]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_without_training_the_table_has_the_existing_runs_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (job,) = jobs([("one", make_config("walker_walk", "cpu", "sac", 1))], tmp_path)
    job.path.mkdir()
    (job.path / "replay").mkdir()
    row = {**evaluation(1000, 420.0), "episodes": 0, "updates": 0, "returns": [420.0]}
    logs = {"eval": row, "timing": timing(1000, 90.0)}
    for name, row in logs.items():
        (job.path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    chosen = ["--tasks", "walker_walk", "--methods", "sac", "--runs", str(tmp_path), "--json", str(tmp_path / "table")]
    assert main(["learning", "--no-train", *chosen]) == 0
    rows = json.loads((tmp_path / "table" / "learning.json").read_text())["rows"]
    found = {row["setting"]: (row["reached"], row["minutes"]) for row in rows}
    assert found["cpu"] == ("1 of 1 (2 unfinished)", "1.5 (1.5 to 1.5)")
    assert found["SB3, 84x84"] == ("0 of 0 (3 unfinished)", "—")
    assert "cpu-0.2" not in found
    assert {path.name for path in tmp_path.iterdir()} == {job.name, "table"}
    assert (job.path / "replay").is_dir()
    assert "started" not in capsys.readouterr().err


def test_the_published_table_follows_from_its_logs() -> None:
    results = Path(__file__).parents[2] / "results" / "bench"
    published = json.loads((results / "learning.json").read_text())["rows"]
    options = Options(
        threads=1,
        repetitions=2,
        tasks=tuple(BEST),
        settings=("cpu-0.2", "cpu"),
        methods=("sac", "dbc-det+pamd", "simsr+pamd"),
        limit_minutes=25,
        runs=results / "learning.parquet",
        train=False,
    )
    rows = {(row["task"], row["setting"], row["method"]): row for row in learning.measure(options).records()}
    for row in published:
        if row["reached"]:  # The rows of a reference implementation are gone.
            assert row == {name: rows[row["task"], row["setting"], row["method"]][name] for name in row}


@pytest.mark.parametrize("rival", ["SB3, our sizes (states)", "plain PyTorch (states)"])
def test_a_rival_trains_until_its_return_and_a_second_start_replaces_the_first(rival: str, tmp_path: Path) -> None:
    log = tmp_path / "rivals.jsonl"
    key = ("state:cartpole_swingup", rival, 3)
    for target in (-1.0, 1e9):
        rivals.train(*key, log, target=target, limit=0.01, every=20, episodes=1)
        (point,) = rivals.load_points(log)[key]
        assert (point.decisions, point.frames) == (20, 80)
        assert point.cpu_seconds > 0
        assert 0 <= point.mean <= 1000
    assert len(log.read_text().splitlines()) == 4


def test_the_plain_rival_learns() -> None:
    """A reward that is the first coordinate of the action draws the policy there."""
    torch.manual_seed(0)
    agent = rivals.PlainSac(nn.Identity(), 3, 2, batch=64)
    for _ in range(150):
        obs, action = torch.randn(64, 3), torch.rand(64, 2) * 2 - 1
        agent.update(obs, torch.randn(64, 3), action, action[:, 0], torch.ones(64))
    assert agent.act(np.zeros(3, np.float32))[0] > 0.3


def test_a_rival_of_pixels_is_refused_on_states(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"SB3, our sizes \(states\)"):
        rivals.train("state:walker_walk", "SB3, our sizes", 0, tmp_path / "log", target=0, limit=0)


@pytest.mark.slow
def test_a_run_ends_when_it_is_over_and_resumes_when_the_limit_is_raised(tmp_path: Path) -> None:
    config = configure("toy:goal", "sac", scale="smoke", decisions=100_000, evaluate_every=100, log_every=50)
    config = dataclasses.replace(config, runtime=Runtime(device="cpu", threads=1, video="off", tensorboard=False))
    (job,) = jobs([("toy", config)], tmp_path)

    def decided(wanted: int) -> Any:
        def over(job: Job) -> bool:
            found = read_points(job.path)
            return bool(found) and found[-1].decisions >= wanted

        return over

    (run,) = train_all([job], 1, decided(100), lambda job: "over")
    assert run.state == "interrupted"
    first = read_points(job.path)
    assert 100 <= first[-1].decisions < 100_000
    assert train_all([job], 1, decided(100), lambda job: "over") == []
    train_all([job], 1, decided(first[-1].decisions + 100), lambda job: "over")
    assert read_points(job.path)[: len(first)] == first
    assert read_points(job.path)[-1].decisions > first[-1].decisions
