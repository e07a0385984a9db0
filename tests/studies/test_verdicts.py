"""Verdicts: pooled paired differences, corrected p values, and their table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from studies.verdicts.__main__ import main
from studies.verdicts.answers import answers, compares_scales, exact_answers, rung_table
from studies.verdicts.plan import CLAIMS, EXPERIMENTS, Claim, Pair
from studies.verdicts.plots import forest_figure
from tests.training.runs import toy

from pamd.report.comparison import compare
from pamd.report.run import load_runs
from pamd.report.statistics import holm, paired_difference, pooled_effect, student_quantile, student_tail
from pamd.training.config import config_text

CLAIM = Claim("C1", "PAMD helps", (Pair("simsr+pamd", "simsr"),))


def test_tail_and_quantile_of_students_t_agree_with_printed_tables() -> None:
    assert student_tail(2.776, 4) == pytest.approx(0.025, abs=1e-4)
    assert student_tail(0.0, 7) == pytest.approx(0.5)
    assert student_quantile(0.975, 10) == pytest.approx(2.228, abs=1e-3)
    assert student_tail(student_quantile(0.99, 3.7), 3.7) == pytest.approx(0.01, abs=1e-6)


def test_the_effect_on_one_task_is_the_paired_difference() -> None:
    x, y = np.array([5.0, 7.0, 6.5, 9.0]), np.array([4.0, 7.5, 5.0, 6.0])
    effect = pooled_effect([x - y])
    assert effect is not None
    expected, found = paired_difference(x, y), effect.interval()
    assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))


def test_the_effect_over_tasks_weights_tasks_equally_and_follows_welch() -> None:
    first, second = np.array([1.0, 3.0]), np.array([10.0, 14.0, 12.0])
    effect = pooled_effect([first, second])
    assert effect is not None
    v1, v2 = 2.0 / 2, 4.0 / 3
    assert effect.mean == pytest.approx((2.0 + 12.0) / 2)
    assert effect.error == pytest.approx(np.sqrt(v1 + v2) / 2)
    assert effect.degrees == pytest.approx((v1 + v2) ** 2 / (v1**2 / 1 + v2**2 / 2))
    assert pooled_effect([first, np.array([1.0])]) is None
    assert pooled_effect([]) is None


def test_holm_corrects_by_rank_and_never_falls() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.001]) == pytest.approx([0.9, 0.002])


def test_pure_noise_is_rarely_called_an_effect() -> None:
    rng = np.random.default_rng(0)
    effects = [pooled_effect([rng.normal(size=5), rng.normal(size=5)]) for _ in range(400)]
    share = np.mean([effect.p_value < 0.05 for effect in effects if effect is not None])
    assert 0.02 < share < 0.09


def _run(root: Path, method: str, seed: int, score: float) -> None:
    config = toy(method, seed=seed, decisions=60)
    place = root / f"{method}-{seed}"
    place.mkdir()
    (place / "config.json").write_text(config_text(config))
    (place / "status.json").write_text(json.dumps({"state": "finished", "decisions": 60, "frames": 60, "updates": 41}))
    rows = [{"decisions": at, "frames": at, "updates": max(0, at - 19), "returns": [score]} for at in (30, 60)]
    (place / "eval.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(("gap", "expected"), [(5.0, "yes"), (-5.0, "no"), (0.0, "open")])
def test_a_verdict_follows_the_sign_of_a_clear_effect(tmp_path: Path, gap: float, expected: str) -> None:
    rng = np.random.default_rng(1)
    for seed in range(4):
        base = 10.0 + rng.normal()
        _run(tmp_path, "simsr", seed, base)
        _run(tmp_path, "simsr+pamd", seed, base + gap + 0.1 * rng.normal())
    comparison = compare(load_runs([tmp_path]))
    (answer,) = answers(comparison, (CLAIM, *CLAIMS[2:]))
    assert (answer.claim, answer.pair) == ("C1", "simsr+pamd > simsr")
    assert (answer.verdict, answer.seeds) == (expected, 4)


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ("dbc-det+pamd > dbc-det", True),
        ("dbc-det > zp", True),
        ("dbc-det+pamd (reward 1-gamma) > dbc-det (reward 1-gamma)", True),
        ("dbc-det+pamd > dbc-det (mean)", False),
        ("dbc-det+pamd > dbc-det+l2 (scale of PAMD)", False),
    ],
)
def test_pairs_with_the_summed_norm_compare_scales(pair: str, expected: bool) -> None:
    assert compares_scales(pair) == expected


def test_claims_name_arms_of_the_plan() -> None:
    labels = {arm.label for experiment in EXPERIMENTS.values() for arm in experiment.arms}
    used = {label for claim in CLAIMS for pair in claim.pairs for label in (pair.better, pair.worse)}
    assert used <= labels


@pytest.mark.parametrize("rung", ["toy", "states", "pixels"])
def test_a_learner_without_a_metric_and_self_prediction_run_on_every_rung(rung: str) -> None:
    experiment = EXPERIMENTS[rung]
    for task in {arm.task for arm in experiment.arms}:
        assert {"sac", "zp", "deepmdp"} <= {arm.label for arm in experiment.arms if arm.task == task}


def test_finished_runs_of_the_study_are_not_trained_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--rung", "states", "toy", "--plan", "--runs", str(tmp_path)]) == 0
    printed = capsys.readouterr().err
    assert "The claims on states with noise" in printed
    assert "0 of 390 runs are missing" in printed  # states
    assert "220 of 270 runs are missing" in printed  # toy: 50 are in the study


def test_wrong_commands_and_rungs_get_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table"]) == 2
    assert "Did you mean 'tables'?" in capsys.readouterr().err
    assert main(["run", "--rung", "stats"]) == 2
    assert "Did you mean 'states'?" in capsys.readouterr().err


def _fits(distance: str, frozen: float, unseen: float) -> list[dict[str, object]]:
    """Ten fits of a distance: errors with fixed latents and on unseen pairs, with some noise."""
    rng = np.random.default_rng(len(distance))
    return [
        {"mdp": "grid", "metric": "mico", "distance": distance, "encoder": encoder, "seed": seed}
        | {"residual": frozen * noise, "held_out": unseen * noise}
        for seed in range(10)
        for encoder in ("frozen", "trainable")
        for noise in [float(np.exp(0.1 * rng.normal()))]
    ]


def test_exact_fits_decide_by_unseen_pairs_and_c5_by_fixed_latents() -> None:
    # The MLP fits fixed latents (it absorbs) and is also better on unseen pairs; PAMD is better than l1.
    cells = [*_fits("pamd", 1.0, 0.1), *_fits("mlp", 0.01, 0.05), *_fits("l1", 5.0, 0.5)]
    c1, c5 = exact_answers(cells, CLAIMS)
    assert (c1.claim, c1.pair, c1.verdict, c1.seeds) == ("C1", "dbc-det+pamd > dbc-det", "yes", 10)
    assert c1.effect.mean == pytest.approx(np.log10(5), abs=0.1)
    assert (c5.claim, c5.verdict) == ("C5", "yes")
    assert c5.effect.mean == pytest.approx(2, abs=0.1)


def test_the_table_of_rungs_leaves_what_a_rung_lacks_empty(tmp_path: Path) -> None:
    cells = [*_fits("pamd", 1.0, 0.1), *_fits("l1", 5.0, 0.5), *_fits("mlp", 0.01, 0.05)]
    both = exact_answers(cells, CLAIMS)
    rungs = {"exact": both, "toy": both[:1]}
    table = rung_table(rungs)
    assert table.columns == ["claim", "pair", "exact", "toy"]
    assert [row[0] for row in table.rows] == ["C1", "C5"]
    assert str(table.rows[0][3]).startswith("yes: ")
    assert table.rows[1][3] == ""
    svg, png = forest_figure(rungs, tmp_path / "verdicts", {"exact": "log10 of the error", "toy": "return"})
    drawn = svg.read_text("utf-8")
    assert png.stat().st_size > 5_000
    assert all(f"<!-- {text}" in drawn for text in ("exact", "toy", "difference in return", "C1: dbc-det+pamd &gt;"))
    assert forest_figure({}, tmp_path / "none", {}) == []
