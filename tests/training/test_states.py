"""Training from states: the evaluation's two halves, the denoising factors, and an exact resume."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pamd
from pamd import diagnostics
from pamd.configuration import configure
from pamd.errors import ConfigError
from pamd.training import TrainConfig
from pamd.training.config import Runtime

SMALL = [
    "learner.batch=8",
    "learner.random_decisions=20",
    "learner.hidden=16",
    "encoder.hidden=16",
    "env.time_limit=80",
    "env.noise.coordinates=4",
]


def _config(method: str, decisions: int) -> TrainConfig:
    return configure(
        "state:cartpole_swingup",
        method,
        noise="projected",
        decisions=decisions,
        settings=[*SMALL, "evaluate_every=20", "evaluate_episodes=1", "checkpoint_every=10", "log_every=10"],
        runtime=Runtime(video="off", tensorboard=False, threads=1),
    )


def _rows(run: Path, name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / f"{name}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("method", ["simsr+pamd", "sac", "drqv2"])
def test_an_evaluation_has_seen_and_unseen_noise_and_denoising_factors(method: str, tmp_path: Path) -> None:
    row = _rows(pamd.train(_config(method, 40), tmp_path), "eval")[-1]
    assert row["return_mean"] != row["unseen_return_mean"]
    assert -1.0 <= float(row["denoising_l2"]) <= 1.0  # type: ignore[arg-type]
    assert ("denoising" in row) == (method == "simsr+pamd")


def test_an_extended_run_equals_one_that_was_never_stopped(tmp_path: Path) -> None:
    whole = pamd.train(_config("dbc-det+pamd", 60), tmp_path / "whole")
    short = pamd.train(_config("dbc-det+pamd", 30), tmp_path / "short")
    pamd.resume(short, decisions=60)
    # The shorter run evaluates at its own end, too.
    assert _rows(short, "train") == _rows(whole, "train")
    assert _rows(short, "eval")[-1] == _rows(whole, "eval")[-1]


def test_a_loaded_agent_acts_on_states(tmp_path: Path) -> None:
    trained = pamd.load(pamd.train(_config("simsr+pamd", 30), tmp_path))
    env = trained.make_env()
    obs, _ = env.reset()
    action = trained.act(obs)
    assert action.shape == (1,)
    assert abs(action).max() <= 1
    env.close()


def test_geometry_reads_a_run_from_states_and_latents_refuses_it(tmp_path: Path) -> None:
    run = pamd.train(_config("simsr+pamd", 30), tmp_path)
    assert diagnostics.geometry(run, pairs=16).latent_dim == 50
    with pytest.raises(ConfigError, match="requires a task with images"):
        diagnostics.latents(run)
