"""The training loop on toy: files, seeds, divergence and invalid input."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.runs import QUIET, products, started, toy

from pamd import atomic_io
from pamd.agent import Agent
from pamd.configuration import configure
from pamd.errors import ConfigError, DivergenceError, PamdError, ResourceError, RunError, UnknownNameError
from pamd.replay import Replay
from pamd.settings import override
from pamd.training import RunDirectory, train
from pamd.training.config import read_config, run_name


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_a_run_directory_holds(tmp_path: Path) -> None:
    config = toy(runtime=dataclasses.replace(QUIET, video="last", tensorboard=True))
    run = train(config, tmp_path)
    assert run.name == run_name(config)
    evaluations = rows(run / "eval.jsonl")
    assert [row["decisions"] for row in evaluations] == [0, 30, 60]
    updates = [row for row in rows(run / "train.jsonl") if row["kind"] == "update"]
    assert [row["decisions"] for row in updates] == list(range(20, 61, 5))
    for row in (*evaluations, *rows(run / "train.jsonl"), *rows(run / "timing.jsonl")):
        assert {"decisions", "frames", "updates"} <= row.keys()
    assert updates[-1]["updates"] == 60 - 20 + 1
    assert {"critic_loss", "metric_loss", "transition_loss"} <= updates[-1].keys()
    # The actor learns at every second update: its newest numbers are in every row after the first.
    assert all({"actor_loss", "entropy", "temperature"} <= row.keys() for row in updates[1:])
    episodes = [row for row in rows(run / "train.jsonl") if row["kind"] == "episode"]
    assert [row["decisions"] for row in episodes] == list(range(9, 61, 9))
    assert json.loads((run / "status.json").read_text())["state"] == "finished"
    assert sorted(p.name for p in (run / "checkpoints").iterdir()) == ["000000050", "000000060"]
    assert list((run / "tensorboard").iterdir())
    (video,) = (run / "video").iterdir()
    assert video.stat().st_size > 500
    # A diagnostic opens the replay without an agent.
    replay = Replay.open(run / "replay", read_only=True)
    assert len(replay) == 60
    assert read_config(run / "config.json") == config


def test_frames_count_the_simulator(tmp_path: Path) -> None:
    config = override(toy(), ("env.action_repeat=2",))
    last = rows(train(config, tmp_path) / "eval.jsonl")[-1]
    assert last["decisions"] == 60
    assert 60 < last["frames"] <= 120


def test_same_seed_same_run_another_seed_another(tmp_path: Path) -> None:
    one, again = (products(train(toy(), tmp_path / str(i))) for i in range(2))
    assert one == again
    other = products(train(toy(seed=1), tmp_path / "other"))
    assert other["train"] != one["train"]
    assert other["eval"] != one["eval"]


def test_a_finished_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(toy(), tmp_path)
    monkeypatch.setattr(Agent, "update", lambda *_: pytest.fail("it ran again"))
    assert train(toy(), tmp_path) == run


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_divergence_stops_with_a_checkpoint_from_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: float
) -> None:
    plain = Agent.update

    def update(self: Agent, batch: Any, decisions: int) -> dict[str, torch.Tensor]:
        metrics = plain(self, batch, decisions)
        return metrics | ({"metric_loss": torch.tensor(bad)} if self.updates == 24 else {})

    monkeypatch.setattr(Agent, "update", update)
    with pytest.raises(DivergenceError, match="metric_loss became NaN or infinite at update 24"):
        train(toy(), tmp_path)
    (run,) = tmp_path.iterdir()
    assert sorted(p.name for p in (run / "checkpoints").iterdir()) == ["000000030", "000000040"]
    status = json.loads((run / "status.json").read_text())
    assert status["state"] == "failed"
    assert "metric_loss" in status["error"]


@pytest.mark.parametrize(
    ("task", "method", "options", "error", "says"),
    [
        ("cheetah_rn", "simsr", {}, UnknownNameError, "'cheetah_run'"),
        ("state:cheetah_rn", "simsr", {}, UnknownNameError, "Did you mean 'state:cheetah_run'"),
        ("toy", "simrs", {}, UnknownNameError, "'simsr'"),
        ("toy", "simsr", {"scale": "cpuu"}, UnknownNameError, "'cpu'"),
        ("toy", "simsr", {"settings": ("method.metrik.weight=1",)}, UnknownNameError, "method.metric"),
        ("toy", "simsr", {"settings": ("learner.batsch=1",)}, UnknownNameError, "learner.batch"),
        ("toy", "simsr", {"settings": ("learner.batch=ten",)}, ConfigError, "batch"),
        ("toy", "simsr", {"settings": ("learner.batch",)}, ConfigError, "KEY=VALUE"),
        ("toy", "simsr", {"settings": ("learner.batch=100000",)}, ConfigError, "learner.random_decisions"),
        ("toy", "simsr", {"settings": ("env.size=13", "encoder.strides=[2,2,2,2]")}, ConfigError, "too small"),
        ("toy", "simsr", {"settings": ("method.transition=null",)}, ConfigError, "predicts; add it"),
        (
            "toy",
            "dbc",
            {"settings": ("method.metric.distance.name=coordinate",)},
            ConfigError,
            "operator.per_coordinate",
        ),
        ("toy", "simsr", {"settings": ("learner.gamma=0.9",)}, ConfigError, "must be equal"),
        ("toy", "drqv3:simsr", {}, UnknownNameError, "'drqv2'"),
        ("toy", "drqv2:simsr", {"learner": "sac"}, ConfigError, "cannot be combined"),
        ("toy", "simsr", {"decisions": 0}, ConfigError, "decisions"),
        ("toy", "simsr", {"seed": -1}, ConfigError, "seed"),
        ("toy", "simsr", {"settings": ("runtime.device=tpu",)}, ConfigError, "tpu"),
        ("toy", "simsr", {"decisions": 10**9, "capacity": 10**9}, ResourceError, "GB"),
        ("toy", "simsr+pamd-block", {"settings": ("method.metric.distance.block=7",)}, ConfigError, "does not divide"),
    ],
)
def test_bad_input_before_any_work(
    tmp_path: Path, task: str, method: str, options: dict[str, Any], error: type[PamdError], says: str
) -> None:
    with pytest.raises(error, match=says):
        train(configure(task, method, **{"scale": "smoke", "runtime": QUIET, **options}), tmp_path)
    assert not list(tmp_path.iterdir()), "a refused start leaves no directory"


def test_a_directory_of_another_config_is_refused(tmp_path: Path) -> None:
    run = train(toy(), tmp_path)
    wrong = tmp_path / run_name(toy(seed=3))
    run.rename(wrong)
    with pytest.raises(RunError, match="another config"):
        train(toy(seed=3), tmp_path)
    with pytest.raises(RunError, match=f"Did you mean .*{wrong.name[:-1]}".replace("+", r"\+")):
        RunDirectory.open(tmp_path / (wrong.name[:-1] + "x"))


def test_two_processes_do_not_share_a_run(tmp_path: Path) -> None:
    held = RunDirectory.open(started(tmp_path, toy()))
    with held.locked(), pytest.raises(RunError, match="in use"):
        train(toy(), tmp_path)


def test_a_full_disk_is_an_error_that_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, calls = atomic_io.write, [0]

    def full(path: Path, data: bytes) -> None:
        if path.name == "state.json" and path.parent.name.startswith(".writing"):
            calls[0] += 1
        if calls[0] == 3:
            raise OSError(28, "No space left on device")
        plain(path, data)

    monkeypatch.setattr(atomic_io, "write", full)
    with pytest.raises(ResourceError, match="No space left"):
        train(toy(), tmp_path)
    (run,) = tmp_path.iterdir()
    assert [p.name for p in (run / "checkpoints").iterdir()] == ["000000010", "000000020"]


def test_update_rows_carry_the_meters_and_a_warning_is_said_once(tmp_path: Path) -> None:
    class Listener:
        said: list[str] = []

        def progress(self, session: Any) -> None:
            pass

        def say(self, message: str) -> None:
            self.said.append(message)

    listener = Listener()
    # On the sphere no distance exceeds 2; a reward weight of 1000 puts most targets beyond it.
    config = override(toy(), ("method.metric.operator.c_R=1000.0",))
    run = train(config, tmp_path, listener)
    updates = [row for row in rows(run / "train.jsonl") if row["kind"] == "update"]
    assert len(updates) > 1
    assert updates[-1]["reach_missed"] > 0.1
    for row in updates:
        assert {"effective_rank", "gradient_head", "gradient_encoder", "probe_reduction"} <= row.keys()
        assert {"dormant_actor", "dormant_critic"} <= row.keys()
    assert sum("reach" in message for message in listener.said) == 1
