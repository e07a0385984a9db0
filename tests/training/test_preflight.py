"""A run that exceeds the machine's memory or disk is refused with a forecast, before any file is created."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.training.runs import QUIET, toy

from pamd.agent import Agent
from pamd.configuration import configure
from pamd.envs import least_shape
from pamd.errors import ConfigError, PamdError, ResourceError
from pamd.settings import override
from pamd.training import preflight, resume, train
from pamd.training.preflight import check_run, run_needs

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
