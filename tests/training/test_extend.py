"""Extending a finished run, loading a trained agent, and restoring the thread count."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.training.runs import QUIET, products, started, toy

import pamd
from pamd.errors import CheckpointError, ConfigError, DtypeError, ResourceError, ShapeError
from pamd.replay import Replay
from pamd.training import RunDirectory, Runtime, load, resume, train
from pamd.training import process as threads_module
from pamd.training.process import available_threads, default_threads, oversubscribed, torch_threads


@pytest.mark.parametrize("storage", ["memory", pytest.param("mmap", marks=pytest.mark.slow)])
def test_an_extended_run_is_the_longer_run(storage: str, tmp_path: Path) -> None:
    """Bit for bit: weights, training log, and the evaluations that both make."""
    straight = products(train(toy(decisions=90, storage=storage), tmp_path / "straight"))
    short = train(toy(decisions=60, storage=storage), tmp_path / "extended")
    assert resume(short, decisions=90) == short
    assert products(short) == straight
    assert RunDirectory.open(short).config_tree()["decisions"] == 90


def test_the_same_command_with_a_larger_budget_extends(tmp_path: Path) -> None:
    first = train(toy(decisions=60), tmp_path)
    assert train(toy(decisions=90), tmp_path) == first
    assert json.loads((first / "status.json").read_text())["decisions"] == 90
    # A smaller budget than what is there: nothing to do.
    before = products(first)
    assert train(toy(decisions=60), tmp_path) == first
    assert products(first) == before
    with pytest.raises(ConfigError, match="cannot be lowered to 60"):
        resume(first, decisions=60)


def test_a_run_whose_replay_has_wrapped_is_extended(tmp_path: Path) -> None:
    straight = products(train(toy(decisions=90, capacity=40), tmp_path / "straight"))
    short = train(toy(decisions=60, capacity=40), tmp_path / "extended")
    assert products(resume(short, decisions=90)) == straight


@pytest.mark.slow
def test_an_extension_that_was_stopped_half_way_blocks_no_smaller_one(tmp_path: Path) -> None:
    run = train(toy(decisions=60), tmp_path)
    Replay.grow(run / "replay", 7000)
    resume(run, decisions=90)
    assert products(run) == products(train(toy(decisions=90), tmp_path / "straight"))


def test_a_refused_extension_changes_nothing(tmp_path: Path) -> None:
    run = train(toy(decisions=60), tmp_path)
    before = {name: (run / name).read_bytes() for name in ("status.json", "config.json")}
    with pytest.raises(ConfigError, match="tpu"):
        resume(run, Runtime(device="tpu"), decisions=90)
    assert {name: (run / name).read_bytes() for name in before} == before


def test_a_larger_budget_that_is_there_already_is_said(tmp_path: Path) -> None:
    run = started(tmp_path, toy(decisions=90))
    messages: list[str] = []

    class Listener:
        def progress(self, session: object) -> None:
            pass

        def say(self, message: str) -> None:
            messages.append(message)

    train(toy(decisions=60), tmp_path, Listener())
    assert any("larger budget and continues to 90 decisions" in message for message in messages)
    assert json.loads((run / "status.json").read_text())["decisions"] == 90


@pytest.mark.parametrize("error", [MemoryError("no memory"), KeyboardInterrupt()])
def test_a_start_that_fails_in_any_way_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("pamd.training.session.Agent", fail)
    with pytest.raises((ResourceError, KeyboardInterrupt)):
        train(toy(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_run_says_what_made_it(tmp_path: Path) -> None:
    run = train(toy(), tmp_path)
    (entry,) = json.loads((run / "versions.json").read_text())
    assert entry["pamd"] == pamd.__version__
    assert entry["torch"] == torch.__version__.split("+")[0] or entry["torch"] == torch.__version__
    assert {"python", "mujoco", "dm_control", "numpy", "commit"} <= entry.keys()


def test_a_loaded_agent_acts_as_the_run_did(tmp_path: Path) -> None:
    run = train(toy(), tmp_path)
    trained = load(run)
    assert trained.checkpoint == "000000060"
    env = trained.make_env(seed=3)
    obs, _ = env.reset()
    action = trained.act(obs)
    assert action.shape == (2,)
    batch = trained.act(np.stack([obs, obs]))
    assert batch.shape == (2, 2)
    np.testing.assert_allclose(batch[0], action, atol=1e-6)
    z = trained.representation.encode(torch.as_tensor(obs)[None])
    assert trained.distance is not None
    assert trained.distance(z, z).shape == (1,)
    assert len(trained.replay()) == 60
    with pytest.raises(ShapeError, match=r"\[9, 24, 24\]"):
        trained.act(obs[:3])
    with pytest.raises(DtypeError, match="uint8"):
        trained.act(obs / 255)
    env.close()


def test_what_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    run = started(tmp_path, toy())
    with pytest.raises(CheckpointError, match="has no complete checkpoint"):
        load(run)


def test_threads_follow_the_environment_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads_module, "_quotas", lambda: [])
    torch.set_num_threads(2)
    try:
        monkeypatch.setattr(threads_module, "cores", lambda: 8)
        assert available_threads() == 2, "torch's own setting"
        monkeypatch.setenv("OMP_NUM_THREADS", "1,2")
        assert available_threads() == 1
        monkeypatch.delenv("OMP_NUM_THREADS")
        monkeypatch.setattr(threads_module, "cores", lambda: 1)
        assert available_threads() == 1, "CPU affinity"
        monkeypatch.setattr(threads_module, "cores", lambda: 8)
        monkeypatch.setattr(threads_module, "_quotas", lambda: [1])
        assert available_threads() == 1, "the control group's quota"
        with torch_threads(1):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_quota_is_read_from_either_version_of_control_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "_CGROUP", tmp_path)
    assert threads_module._quotas() == []
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert threads_module._quotas() == [2]
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("300000")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert threads_module._quotas() == [3]


def test_an_oversubscribed_run_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (5.0, 5.0, 5.0))
    sentence = oversubscribed(2)
    assert sentence is not None
    assert sentence.startswith("threads: the load is 5.0 on 2 cores")
    assert oversubscribed(1) is None
    monkeypatch.setattr(os, "getloadavg", lambda: (1.0, 1.0, 1.0))
    assert oversubscribed(2) is None


def test_training_gives_the_threads_back(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    train(toy(runtime=QUIET), tmp_path)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("task", "scale", "small"), [("toy", "cpu", True), ("state:cheetah_run", "state", True), ("toy", "paper", False)]
)
def test_small_observations_have_one_thread(task: str, scale: str, small: bool) -> None:
    with torch_threads(2):
        available = available_threads()
        assert default_threads(pamd.configure(task, scale=scale).env) == (1 if small else available)
