"""A run that exceeds the machine's memory or disk is refused with a forecast, before any file is created."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest
from tests.training.runs import QUIET, products, toy, undisturbed

from pamd.agent import Agent
from pamd.configuration import configure
from pamd.envs import least_shape
from pamd.errors import ConfigError, PamdError, ResourceError
from pamd.replay.files import Manifest
from pamd.settings import override
from pamd.training import preflight, resume, run_name, train
from pamd.training.preflight import check_run, run_needs
from pamd.training.run import SilentObserver

HUGE = 10**40
WIDTHS = "widths of learner, encoder and method"
ABSURD = {
    "learner.hidden=1000000000": WIDTHS,
    f"learner.hidden={HUGE}": WIDTHS,
    "encoder.filters=1000000": WIDTHS,
    "method.latent_dim=1000000": WIDTHS,
    "env.size=1000000": "env.size",
    f"env.size={HUGE}": "env.size",
    "env.frame_stack=100000000": "env.frame_stack",
    "checkpoint_every=1000000000000 decisions=1000000000000": "checkpoint_every",
    "learner.batch=999999 learner.random_decisions=999999999 decisions=1000000000 env.size=84 replay.storage=mmap"
    " replay.capacity=1000000": "learner.batch",
}


@pytest.mark.parametrize("settings", ABSURD)
def test_absurd_sizes_are_refused_by_field_with_the_forecast(settings: str, tmp_path: Path) -> None:
    config = configure("toy", "simsr+pamd", scale="smoke", settings=settings.split(), runtime=QUIET)
    with pytest.raises(ResourceError, match=r"GB of (memory|disk)|cannot be built") as refused:
        train(config, tmp_path / "runs")
    assert ABSURD[settings] in str(refused.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("size", [1_000_000, HUGE])
def test_an_absurd_ensemble_is_refused(size: int) -> None:
    with pytest.raises(ConfigError, match=f"members must be .* at most 1000, got {size}"):
        configure("toy", "simsr+pamd", settings=(f"method.transition.members={size}",))


def test_absurd_threads_are_refused(tmp_path: Path) -> None:
    config = override(toy(), ["runtime.threads=1000000"])
    with pytest.raises(ConfigError, match=r"threads must be at most \d+ on a machine with \d+ cores, got 1000000"):
        train(config, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    check_run(override(toy(), [f"runtime.threads={os.cpu_count()}"]), tmp_path)


@pytest.mark.parametrize(
    ("method", "settings"),
    [("simsr+pamd", ()), ("dbc", ("schedule=joint",)), ("drqv2:mico", ()), ("simsr+pamd", ("isolate_metric=true",))],
)
def test_the_forecast_of_a_checkpoint_is_its_size(method: str, settings: tuple[str, ...]) -> None:
    config = configure("toy", method, scale="smoke", settings=settings, runtime=QUIET)
    shape = least_shape(config.env)
    agent = Agent(config.agent, observation_shape=shape, action_dim=preflight.ACTIONS, seed=0)
    weights = sum(t.numel() * t.element_size() for t in agent.nets.state_dict().values())
    stepped = [p for o in agent.optimizers.values() for group in o.param_groups for p in group["params"]]
    assert run_needs(config).memory["checkpoints"] == weights + 2 * sum(p.numel() * 4 for p in stepped)


def test_both_memory_and_disk_are_checked_and_a_finished_run_needs_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train(toy(decisions=25), tmp_path)
    for what in ("memory", "disk"):
        with monkeypatch.context() as patch:
            patch.setattr(preflight, f"available_{what}", lambda *directory: 1000)
            assert resume(run) == run, "it is finished"
            with pytest.raises(PamdError, match=f"GB of {what}|cannot be built"):
                resume(run, decisions=10**9)
    resume(run, decisions=30)


def test_a_run_on_a_full_disk_that_has_its_files_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its replay and its checkpoints take already is counted."""
    run = train(toy(decisions=25), tmp_path)
    needs: dict[str, Any] = run_needs(toy(decisions=25)).disk
    monkeypatch.setattr(preflight, "disk_taken", lambda directory: needs["replay"])
    monkeypatch.setattr(preflight, "available_disk", lambda directory: needs["checkpoints"])
    check_run(toy(decisions=25), run)
    monkeypatch.setattr(preflight, "available_disk", lambda directory: 0)
    with pytest.raises(ResourceError, match="of disk"):
        check_run(toy(decisions=25), run)


def test_storage_auto_is_a_file_where_memory_is_short_and_the_run_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, said = toy(), Said()
    assert config.replay.storage == "auto"
    whole, least = (sum(run_needs(config, storage).memory.values()) for storage in ("memory", "mmap"))
    monkeypatch.setattr(preflight, "available_memory", lambda: whole)
    assert least < whole, "it does not fit with room to spare, and without its frames it does"
    short = dataclasses.replace(config, decisions=30)
    run = train(short, tmp_path, said)
    assert stored(run) == "mmap"
    assert [line for line in said.lines if "does not fit into the free memory" in line] == said.lines[:1]
    monkeypatch.undo()
    said.lines.clear()
    assert resume(run, observer=said, decisions=60) == run
    assert stored(run) == "mmap", "a run keeps its file"
    assert not any("memory" in line for line in said.lines), "said once"
    assert products(run) == undisturbed(config)
    in_memory = train(short, tmp_path / "elsewhere")
    assert (stored(in_memory), in_memory.name) == ("memory", run.name)


def test_a_run_in_memory_goes_on_in_a_file_where_memory_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = toy()
    run = train(dataclasses.replace(config, decisions=30), tmp_path)
    assert stored(run) == "memory"
    limited = dataclasses.replace(config.runtime, memory=1)
    resume(run, limited, decisions=60)
    assert stored(run) == "mmap"
    assert products(run) == undisturbed(config)


def test_the_names_of_runs_did_not_change_with_the_default_storage() -> None:
    config = configure("toy", "simsr+pamd", scale="smoke", decisions=60)
    assert config.replay.storage == "auto"
    assert run_name(config) == run_name(override(config, ["replay.storage=memory"])), "the default before"
    assert run_name(override(config, ["replay.storage=mmap"])) != run_name(config)


class Said(SilentObserver):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        self.lines.append(message)


def stored(run: Path) -> str:
    return Manifest.load(run / "replay").layout.storage
