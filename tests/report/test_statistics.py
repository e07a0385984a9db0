"""Against closed forms, published tables and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pamd.report import statistics as s

RNG = np.random.default_rng


def test_mean_and_error_is_the_paper_s() -> None:
    mean, error = s.mean_and_error([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5
    assert error == pytest.approx(math.sqrt(5 / 3) / 2)


def test_one_seed_has_no_error_rather_than_none_of_it() -> None:
    assert s.mean_and_error([7.0]) == (7.0, None)
    assert s.estimate(s.iqm, [np.array([7.0])], rng=RNG(0)) == s.Estimate(7.0, None, None)


def test_iqm_is_the_mean_of_the_middle_half() -> None:
    assert s.iqm([np.arange(1.0, 9.0)]) == 4.5
    assert s.iqm([np.array([1.0, 1000.0]), np.array([3.0, -50.0])]) == 2.0  # pooled over tasks
    assert s.iqm([np.array([0.0, 1.0, 2.0, 4.0, 99.0])]) == pytest.approx(7 / 3)  # floor(5/4) = 1 at each end


def test_iqm_and_improvement_agree_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    for n in range(1, 30):
        x, y = RNG(n).integers(0, 9, n).astype(float), RNG(n + 99).integers(0, 9, n + 1).astype(float)
        assert s.iqm([x]) == pytest.approx(stats.trim_mean(x, 0.25))
        u = stats.mannwhitneyu(x, y).statistic
        assert s.probability_of_improvement([x], [y]) == pytest.approx(u / (len(x) * len(y)))


def test_probability_of_improvement_by_hand() -> None:
    x, y = np.array([1.0, 3.0]), np.array([1.0, 2.0])
    # 1 ties 1 (half), 1 < 2, 3 > 1, 3 > 2: 2.5 of 4; the second task is certain.
    assert s.probability_of_improvement([x, x + 9], [y, y]) == pytest.approx((2.5 / 4 + 1) / 2)
    assert s.probability_of_improvement([x], [y]) + s.probability_of_improvement([y], [x]) == pytest.approx(1)


def test_profile_and_gap_by_hand() -> None:
    scores = [np.array([0.1, 0.5]), np.array([0.5, 0.9, 2.0])]
    profile = s.performance_profile(scores, np.array([0.0, 0.5, 1.0, 3.0]))
    np.testing.assert_allclose(profile, [1.0, (0 + 2 / 3) / 2, (0 + 1 / 3) / 2, 0.0])
    assert s.optimality_gap(scores, 1.0) == pytest.approx(1 - (0.1 + 0.5 + 0.5 + 0.9 + 1.0) / 5)


def test_bootstrap_of_a_mean_has_the_closed_form_s_width() -> None:
    x = RNG(1).normal(size=400)

    def mean(scores: s.Scores) -> s.Values:
        return np.concatenate(scores, axis=-1).mean(axis=-1)

    low, high = s.bootstrap(mean, [x], rng=RNG(0), times=4000)
    reach = 1.959964 * x.std() / 20
    assert float(low) == pytest.approx(x.mean() - reach, abs=0.01)
    assert float(high) == pytest.approx(x.mean() + reach, abs=0.01)


def test_counting_the_drawn_runs_gives_the_same_intervals_as_drawing_their_scores() -> None:
    x, y = ([RNG(seed).integers(0, 9, runs) / 9 for runs in sizes] for seed, sizes in ((1, (5, 3)), (2, (4, 6))))
    thresholds = np.linspace(0, 1, 11)
    profile = s.bootstrap(lambda drawn: s.performance_profile(drawn, thresholds), x, rng=RNG(0), times=500)
    np.testing.assert_allclose(s.profile_interval(x, thresholds, rng=RNG(0)), profile)
    found = s.estimate_improvement(x, y, rng=RNG(0))
    wanted = s.estimate(s.probability_of_improvement, x, y, rng=RNG(0), digits=2)
    assert (found.value, found.low, found.high) == pytest.approx((wanted.value, wanted.low, wanted.high))
    assert s.estimate_improvement(x, [task[:1] for task in y], rng=RNG(0)).low is None


def test_bootstrap_is_stratified() -> None:
    """Tasks far apart, no spread within: resampling across tasks would move the mean, within them it cannot."""
    scores = [np.zeros(5), np.full(5, 100.0)]
    low, high = s.bootstrap(lambda drawn: np.concatenate(drawn, axis=-1).mean(-1), scores, rng=RNG(0), times=50)
    assert (low, high) == (50, 50)


def test_bootstrap_of_four_runs_enumerated() -> None:
    """The mean of two runs of {0, 1} is 0, 1/2, 1 with 1/4, 1/2, 1/4."""
    low, high = s.bootstrap(lambda drawn: drawn[0].mean(-1), [np.array([0.0, 1.0])], rng=RNG(3), level=0.4)
    assert (low, high) == (0.5, 0.5)
    low, high = s.bootstrap(lambda drawn: drawn[0].mean(-1), [np.array([0.0, 1.0])], rng=RNG(3), level=0.6)
    assert (low, high) == (0.0, 1.0)


def test_statistics_of_many_resamples_are_those_of_each() -> None:
    x, y = [RNG(1).normal(size=(4, 5)), RNG(2).normal(size=(4, 3))], [RNG(3).normal(size=(4, 2))] * 2
    grid = np.linspace(-1, 1, 7)
    for row in range(4):
        one, other = [task[row] for task in x], [task[row] for task in y]
        assert s.iqm(x)[row] == pytest.approx(s.iqm(one))
        assert s.optimality_gap(x)[row] == pytest.approx(s.optimality_gap(one))
        assert s.probability_of_improvement(x, y)[row] == pytest.approx(s.probability_of_improvement(one, other))
        np.testing.assert_allclose(s.performance_profile(x, grid)[row], s.performance_profile(one, grid))


def test_the_same_generator_gives_the_same_interval() -> None:
    scores = [RNG(5).normal(size=6)]
    assert s.estimate(s.iqm, scores, rng=RNG(2)) == s.estimate(s.iqm, scores, rng=RNG(2))


@pytest.mark.parametrize(
    ("p", "degrees", "table"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.3027),
        (0.975, 4, 2.7764),
        (0.975, 9, 2.2622),
        (0.95, 5, 2.0150),
        (0.975, 999, 1.9623),
    ],
)
def test_student_s_quantile_is_that_of_the_tables(p: float, degrees: int, table: float) -> None:
    assert s.student_quantile(p, degrees) == pytest.approx(table, abs=2e-4)


def test_paired_difference_by_hand() -> None:
    """Differences 1, 2, 3: mean 2, standard error 1/sqrt(3), t(2) = 4.3027."""
    found = s.paired_difference(np.array([11.0, 22.0, 33.0]), np.array([10.0, 20.0, 30.0]))
    assert found.value == 2
    assert found.low == pytest.approx(2 - 4.3027 / math.sqrt(3), abs=1e-3)
    assert found.high == pytest.approx(2 + 4.3027 / math.sqrt(3), abs=1e-3)
    assert s.paired_difference(np.array([1.0]), np.array([0.0])) == s.Estimate(1.0, None, None)


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng = RNG(0)
    hits = 0
    for _ in range(400):
        found = s.paired_difference(rng.normal(0.5, 1, 5), rng.normal(0, 1, 5))
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0.5 <= found.high
    assert 0.92 < hits / 400 < 0.98


@pytest.mark.parametrize(("effect", "published"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_seeds_needed_are_the_published_sample_sizes(effect: float, published: int) -> None:
    """Matched pairs, two-sided, 5 %, power 0.8: as power tables have them for Cohen's small, medium and large."""
    spread = np.array([-1.0, 0.0, 1.0])  # standard deviation one
    assert s.seeds_needed(spread + effect) == published


def test_seeds_needed_of_nothing() -> None:
    assert s.seeds_needed(np.array([1.0])) is None
    assert s.seeds_needed(np.array([1.0, -1.0])) is None
    assert s.seeds_needed(np.array([2.0, 2.0])) == 2


def test_the_interval_of_a_success_rate_is_wilsons() -> None:
    stats = pytest.importorskip("scipy.stats")
    for wins, n in ((0, 5), (1, 1), (3, 10), (10, 10), (57, 80)):
        found = s.success_rate([True] * wins + [False] * (n - wins))
        low, high = stats.binomtest(wins, n).proportion_ci(method="wilson")
        assert (found.value, found.low, found.high) == pytest.approx((wins / n, low, high))
