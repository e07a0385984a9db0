"""Diagnostics on real runs of toy, and invalid inputs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.envs.clip_files import write_clips
from tests.training.runs import toy

from pamd import diagnostics
from pamd.diagnostics.states import _simulator_state, play
from pamd.diagnostics.transitions import collect, open_replay
from pamd.distances import DISTANCES, Distance, Properties
from pamd.distances.base import NoOptions
from pamd.envs import EnvConfig, make_env
from pamd.errors import CheckpointError, ConfigError, ReplayError, RunError, ShapeError, UnknownNameError
from pamd.report.diagnostics import draw, parse_section
from pamd.training import load, train
from pamd.training.config import prepare

TINY: dict[str, Any] = {
    "steps": 6, "points": 3, "latent_dim": 6, "filters": 4, "transitions": 20, "pairs": 32,
}  # fmt: skip


def test_residual_fitting_of_a_run_shares_its_start_and_goes_on(runs: dict[str, Path], tmp_path: Path) -> None:
    run = runs["dbc-det+pamd"]
    found = diagnostics.residual(run, seeds=1, out=tmp_path, **TINY)
    assert [(c.distance, c.encoder) for c in found.curves] == [
        ("pamd", "frozen"), ("pamd", "trainable"), ("mlp", "frozen"), ("mlp", "trainable"),
    ]  # fmt: skip
    frozen, trainable = found.curves[:2]
    assert frozen.steps == [0, 2, 4, 6]
    assert frozen.residual[0] == pytest.approx(trainable.residual[0], rel=1e-5)
    assert frozen.residual[-1] != trainable.residual[-1]
    told: list[str] = []
    again = diagnostics.residual(run, seeds=2, out=tmp_path, progress=lambda what, *_: told.append(what), **TINY)
    assert {what.split()[-1] for what in told} == {"1"}  # seed 0 was not fitted again
    assert told[0].startswith("curve 5 of 8: pamd, frozen encoder")
    assert again.curves[:4] == found.curves
    assert [a.seeds for a in again.absorption] == [2, 2]
    stopped = diagnostics.residual(run, seeds=3, out=tmp_path, interrupted=True, **TINY)
    assert len(stopped.curves) == 8
    with pytest.raises(ConfigError, match="other settings"):
        diagnostics.residual(run, out=tmp_path, **{**TINY, "steps": 7})


def test_a_fit_reduces_the_residual_and_is_the_same_every_time(runs: dict[str, Path]) -> None:
    # Without bootstrapping the target stands still, and a fit has something to arrive at.
    # At a rate of 1e-2 the fit would hover about its end, near the bound.
    settings = {**TINY, "steps": 200, "learning_rate": 3e-3, "gamma": 0.0}
    one, two = (diagnostics.residual(runs["simsr"], distances=["mlp"], seeds=1, **settings) for _ in range(2))
    assert one.curves == two.curves
    trainable = one.curves[1]
    # The end of so short a fit changes with the rounding of the convolutions.
    assert min(trainable.residual) < 0.5 * trainable.residual[0]


def test_the_encoder_may_start_from_the_runs_own(runs: dict[str, Path]) -> None:
    changes = {**TINY, "latent_dim": 50, "encoder": "run"}
    own = diagnostics.residual(runs["dbc-det+pamd"], distances=["l2"], seeds=1, **changes)
    fresh = diagnostics.residual(runs["dbc-det+pamd"], distances=["l2"], seeds=1, **{**changes, "encoder": "random"})
    assert own.curves[0].residual[0] != fresh.curves[0].residual[0]
    # Nothing of l2 is learned: with the encoder frozen nothing moves.
    assert len(set(own.curves[0].residual)) == 1
    with pytest.raises(ShapeError, match="returns 50 numbers"):
        diagnostics.residual(runs["dbc-det+pamd"], distances=["l2"], **{**changes, "latent_dim": 6})


def test_a_constant_distance_absorbs_nothing(runs: dict[str, Path]) -> None:
    @DISTANCES.register("outside-constant")
    class Constant(Distance[NoOptions]):
        """0.3 whatever comes."""

        Config = NoOptions
        properties = Properties(self_zero=False)

        def _value(self, z: Any, z_prime: Any) -> Any:
            return z.new_full((len(z),), 0.3)

    try:
        found = diagnostics.residual(runs["sac"], distances=["outside-constant"], seeds=2, **TINY)
    finally:
        DISTANCES.unregister("outside-constant")
    (ratio,) = found.absorption
    assert ratio.ratio == 0.0
    assert ratio.frozen == ratio.trainable == pytest.approx(ratio.initial)


def test_geometry_of_a_run(runs: dict[str, Path], tmp_path: Path) -> None:
    found = diagnostics.geometry(runs["dbc-det+pamd"], pairs=40)
    assert found.eigenvalues.shape == (40, 50)
    assert found.eigenvalues.sum(1) == pytest.approx(np.ones(40), abs=1e-3)
    assert (found.lower <= found.value + 1e-9).all()
    assert (found.value <= found.upper + 1e-9).all()
    diagnostics.save(found, tmp_path)
    section = draw(tmp_path)
    assert parse_section((tmp_path / "section.json").read_bytes(), str(tmp_path)) == section
    for figure in section.figures:
        for ending in (".svg", ".png"):
            assert (tmp_path / f"{figure.file}{ending}").stat().st_size > 5000


def test_latents_of_a_run_with_a_second_view(runs: dict[str, Path], tmp_path: Path) -> None:
    found = diagnostics.latents(
        runs["dbc-det+pamd"], states=24, episodes=4, neighbors=2, second_view=lambda obs: 255 - obs
    )
    count = len(found.states)
    assert set(found.distances) == {"pamd", "l2", "state"}
    assert found.neighbors["pamd"].shape == (count, 2)
    assert found.correlations["state"]["state"] == pytest.approx(1.0)
    assert set(found.denoising) == {"pamd", "l2"}
    assert all(-1 <= factor <= 1 for factor in found.denoising.values())
    same = diagnostics.latents(runs["simsr"], states=24, neighbors=2, second_view=lambda obs: obs)
    assert same.denoising["l2"] == pytest.approx(1.0)
    diagnostics.save(found, tmp_path)
    section = draw(tmp_path)
    assert {figure.file for figure in section.figures} == {"neighbors", "correlations", "maps"}
    assert "Denoising factor" in section.text()
    with pytest.raises(ShapeError, match="second_view"):
        diagnostics.latents(runs["sac"], states=24, neighbors=2, second_view=lambda obs: obs[:, :3])


def test_the_denoising_factor_before_clips_of_training_and_unseen_ones(tmp_path: Path) -> None:
    """An encoder of pixels that has hardly learned takes the background for the state."""
    write_clips(tmp_path / "videos", 6)
    config = prepare(toy(distractor="video", videos=tmp_path / "videos"))
    run = train(config, tmp_path / "runs")
    seen = play(load(run), 24, episodes=2)
    for split in ("train", "unseen"):
        one, other = seen.views[split]
        assert one.shape == other.shape == seen.obs.shape
        assert (one != other).any(axis=(1, 2, 3)).all(), "the same state before another background"
    # The policy sees the episode's own clip of training: that is the first view.
    assert (seen.views["train"][0] == seen.obs).all()
    found = diagnostics.latents(run, states=24, episodes=2, neighbors=2)
    assert set(found.denoising) == {f"{d}, {s} clips" for d in ("pamd", "l2") for s in ("train", "unseen")}
    assert all(-1 <= factor < 1 for factor in found.denoising.values())


def test_a_run_without_a_distance_still_has_latents_but_no_geometry(runs: dict[str, Path]) -> None:
    found = diagnostics.latents(runs["sac"], states=24, neighbors=2)
    assert set(found.distances) == {"l2", "state"}
    with pytest.raises(ConfigError, match="'none' has no distance"):
        diagnostics.geometry(runs["sac"])
    with pytest.raises(ConfigError, match=r"not a quadratic form.*pamd"):
        diagnostics.geometry(runs["simsr"])


def test_states_belong_to_their_pictures(runs: dict[str, Path]) -> None:
    states = play(load(runs["sac"]), 16, episodes=2)
    assert states.picture.shape == (len(states), 24, 24, 3)
    assert (states.picture.transpose(0, 3, 1, 2) == states.obs[:, -3:]).all()
    assert states.simulator is not None
    # The toy's agent is its red disc: the picture's red is where the simulator says, left or right.
    red = (states.picture[..., 0].astype(float) - 30).clip(0)
    column = (red * np.arange(24)).sum((1, 2)) / red.sum((1, 2))
    assert np.corrcoef(column, states.simulator[:, 0])[0, 1] > 0.9


def test_the_simulators_state_of_a_real_task() -> None:
    env = make_env("cartpole_swingup", size=24, render="fast")
    env.reset()
    before = _simulator_state(env)
    env.step(np.ones(1, dtype=np.float32))
    after = _simulator_state(env)
    env.close()
    assert before is not None
    assert after is not None
    assert before.shape == (4,)  # two positions, two velocities
    assert not np.array_equal(before, after)


def test_a_collected_replay_holds_what_was_asked_for() -> None:
    replay = collect(EnvConfig("toy", size=24), 90, seed=3)  # more than two episodes of 40
    assert len(replay) == 90


def test_what_cannot_be_looked_at_is_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    run = runs["dbc-det+pamd"]
    with pytest.raises(RunError, match="neither a run directory nor a saved replay"):
        diagnostics.residual(tmp_path / "nowhere")
    with pytest.raises(ReplayError, match="500 transitions are required, but the replay holds"):
        diagnostics.residual(run, **{**TINY, "transitions": 500})
    with pytest.raises(UnknownNameError, match="Did you mean 'quick'"):
        diagnostics.residual(run, preset="quik")
    with pytest.raises(UnknownNameError, match="Did you mean 'steps'"):
        diagnostics.residual(run, stesp=3)
    with pytest.raises(UnknownNameError, match="Did you mean 'pamd'"):
        diagnostics.residual(run, distances=["pmad"])
    with pytest.raises(ConfigError, match="trained agent"):
        diagnostics.residual(preset="paper")
    with pytest.raises(ConfigError, match="too small"):
        diagnostics.residual(run, **{**TINY, "strides": (4, 4, 4)})
    with pytest.raises(ConfigError, match="batch must be at least 2"):
        diagnostics.residual(run, **{**TINY, "batch": 1})
    bare = tmp_path / "bare"
    shutil.copytree(run, bare, ignore=shutil.ignore_patterns("checkpoints"))
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        diagnostics.latents(bare)
    other = tmp_path / "other"
    shutil.copytree(run, other)
    config = json.loads((run / "config.json").read_text())
    config["env"]["size"] = 36
    (other / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match=r"config.json was edited .* env.size was 24 and is 36"):
        diagnostics.geometry(other)
    assert len(open_replay(run)) > 40
