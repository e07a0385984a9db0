"""The plan of the geometry study: its runs build, pairs share their seeds, and the search picks a weight."""

from __future__ import annotations

import collections
import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from studies.geometry import analysis, check, mechanism, plan
from studies.geometry.__main__ import main
from studies.geometry.search import choose_weights, last_return

from pamd.configuration import configure
from pamd.errors import RunError
from pamd.runs.campaigns import write_campaign
from pamd.training import Trained, load, train
from pamd.training.config import config_text, run_name


@pytest.fixture(autouse=True)
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of every searched comparator, whether or not the search has run."""
    path = tmp_path / "weights.json"
    path.write_text(json.dumps(dict.fromkeys(plan.SEARCHED, 0.25)))
    monkeypatch.setattr(plan, "WEIGHTS", path)


@pytest.mark.parametrize(("stage", "count"), plan.COUNTS.items())
def test_a_stage_has_the_runs_of_the_plan_and_no_run_twice(stage: str, count: int) -> None:
    planned = plan.runs(stage)
    assert len(planned) == count
    assert len({run_name(one.config) for one in planned}) == count


def test_every_arm_of_a_primary_test_has_ten_seeds_of_four_tasks() -> None:
    seeds = collections.defaultdict(set)
    for label, config in plan.runs("primary"):
        seeds[label, config.env.task].add(config.seed)
    assert {label for label, _ in seeds} == set(plan.PRIMARY)
    assert len(seeds) == 4 * len(plan.PRIMARY)
    assert all(found == set(range(10)) for found in seeds.values())


def test_the_search_uses_no_task_of_the_tests() -> None:
    assert not plan.SEARCH_TASKS.keys() & plan.TASKS.keys()
    assert not set(plan.SEARCH_SEEDS) & set(range(10))


def test_arms_differ_only_in_what_their_name_says() -> None:
    (pamd,) = (c for name, c in plan.runs("primary") if name == "pamd" and c.seed == 0 and "cheetah" in c.env.task)
    (norm,) = (c for name, c in plan.runs("primary") if name == "l2-unit" and c.seed == 0 and "cheetah" in c.env.task)
    assert pamd.learner == norm.learner
    assert pamd.env == norm.env
    assert pamd.method.without("metric").terms == norm.method.without("metric").terms
    assert pamd.method.metric is not None
    assert norm.method.metric is not None
    assert (pamd.method.metric.distance.name, norm.method.metric.distance.name) == ("pamd", "l2-unit")
    assert pamd.method.metric.operator == norm.method.metric.operator


def test_a_missing_search_is_named(tmp_path: Path) -> None:
    assert last_return([[0.0], [1.0, 3.0], [4.0]]) == 3.0
    empty = tmp_path / "runs"
    empty.mkdir()
    with pytest.raises(RunError):
        choose_weights([empty])


def test_wrong_stages_get_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--stage", "primry"]) == 2
    assert "Did you mean 'primary'?" in capsys.readouterr().err


def test_the_help_of_a_command_lists_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    assert "search, primary, exploration or pixels" in capsys.readouterr().out


def synthetic(path: Path, gain: float) -> Path:
    """Write a campaign with ten seeds of every primary arm, whose PAMD arms gain `gain` of the range of a task."""
    rng, rows = np.random.default_rng(0), []
    for label, config in plan.runs("primary"):
        level = 100 + 500 * (0.8 + gain * label.startswith("pamd") + 0.1 * rng.standard_normal())
        evaluations = [{"decisions": at, "frames": 8 * at, "updates": at // 3, "returns": [level - 5, level + 5]}
                       for at in (0, 12_000, config.decisions)]  # fmt: skip
        episode = {"kind": "episode", "decisions": 125, "frames": 1000, "updates": 0, "return": 100.0}
        files = {
            "config.json": config_text(config).encode(),
            "status.json": b'{"state": "finished", "seconds": 60}',
            "eval.jsonl": b"".join(json.dumps(row).encode() + b"\n" for row in evaluations),
            "train.jsonl": json.dumps(episode).encode() + b"\n",
        }
        rows.append((run_name(config), files))
    write_campaign(rows, path)
    return path


@pytest.mark.parametrize("gain", [0.0, 0.2])
def test_the_primary_tests_agree_with_scipy(gain: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((analysis, "FLIPS"), (analysis, "RESAMPLES"), (check, "TIMES")):
        monkeypatch.setattr(module, name, 20_000)
    data = synthetic(tmp_path / "runs.parquet", gain)
    tables = {table.name: table for table in analysis.write(tmp_path, runs=[data], figures=False)}
    ours, theirs = tables["primary"].rows, list(check.results(data).values())
    assert len(ours) == len(theirs) == 4
    for (_, pairs, effect, p, corrected, *_), other in zip(ours, theirs, strict=True):
        assert pairs == other["pairs"] == 40
        assert effect.value == pytest.approx(other["difference"], abs=1e-12)
        assert (effect.low, effect.high) == pytest.approx((other["low"], other["high"]), abs=0.005)
        assert p == pytest.approx(other["p"], abs=0.015)
        assert corrected == pytest.approx(other["corrected"], abs=0.05)
    # The gain is the same at both sizes of latents, so the third test must not find more at d = 8.
    expected = {0.0: ["no"] * 4, 0.2: ["yes", "yes", "no", "yes"]}
    assert [row[5] for row in ours] == expected[gain]


def test_the_second_script_agrees_on_the_published_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "TIMES", 20_000)
    with (analysis.HERE / "tables/primary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, other in zip(rows, check.results(analysis.RUNS).values(), strict=True):
        assert int(row["pairs"]) == other["pairs"] == 40
        assert float(row["difference"]) == pytest.approx(other["difference"], abs=1e-6)
        assert float(row["difference low"]) == pytest.approx(other["low"], abs=0.01)
        assert float(row["difference high"]) == pytest.approx(other["high"], abs=0.01)
        assert float(row["p"]) == pytest.approx(other["p"], abs=0.02)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    settings = ("env.noise.coordinates=3", "learner.random_decisions=50", "method.latent_dim=6", "encoder.hidden=16")
    config = configure(
        "state:cartpole_swingup", "dbc-det+pamd", scale="smoke", noise="projected", decisions=60, settings=settings
    )
    return load(train(config, tmp_path_factory.mktemp("runs")))


def test_an_isotropic_matrix_gives_every_direction_the_weight_one(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trained.distance, "matrix", lambda x, y: torch.eye(6).expand(len(x), 6, 6) * 0.3)
    measured = mechanism.measured(trained, pairs=16)
    for name in ("rank", "difference", "value", "state", "noise"):
        assert measured[name] == pytest.approx(1), name
    for name in ("anisotropy", "variation"):
        assert measured[name] == pytest.approx(0, abs=1e-6), name
    assert measured["heard"] > 0


def test_a_matrix_along_the_difference_has_rank_one_and_its_whole_weight(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    def along(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.einsum("pi,pj->pij", x - y, x - y)

    monkeypatch.setattr(trained.distance, "matrix", along)
    measured = mechanism.measured(trained, pairs=16)
    assert measured["difference"] == pytest.approx(6)
    assert measured["top"] == pytest.approx(6)
    assert measured["rank"] == pytest.approx(1 / 6, rel=1e-3)
    assert measured["variation"] > 0.5


def test_moves_follow_the_matrix_that_mixes_noise_and_state(trained: Trained) -> None:
    obs = trained.replay().take(np.arange(4)).obs
    noise = mechanism._noise(trained)
    assert noise.matrix is not None
    step = 1e-3
    for coordinate in (0, noise.size - 1):
        moved = obs + step * torch.as_tensor(noise.matrix[:, coordinate], dtype=obs.dtype)
        slope = (trained.measured.encode(moved) - trained.measured.encode(obs)) / step
        assert torch.allclose(mechanism._moves(trained, obs)[coordinate], slope, rtol=0.05, atol=5e-3)
