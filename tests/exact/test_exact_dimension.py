"""Covering numbers and dimensions of spaces whose answer is known."""

import itertools
import sys

import numpy as np
import pytest

from pamd import exact
from pamd.errors import ConfigError, ShapeError


def line(points: int) -> np.ndarray:
    x = np.arange(float(points))
    return np.abs(x[:, None] - x)


def square(side: int) -> np.ndarray:
    """side x side points under the largest coordinate's difference, whose balls are squares."""
    points = np.array(list(itertools.product(range(side), repeat=2)), dtype=float)
    return np.abs(points[:, None] - points).max(-1)


def by_trying(D: np.ndarray, radius: float) -> int:
    for count in range(1, len(D) + 1):
        for centers in itertools.combinations(range(len(D)), count):
            if (D[list(centers)] <= radius).any(0).all():
                return count
    raise AssertionError


@pytest.mark.parametrize("radius", [0.0, 0.3, 0.5, 0.7, 0.9, 2.0])
def test_covering_number_is_the_least_of_all(radius):
    x = np.random.default_rng(4).random((10, 2))
    D = np.linalg.norm(x[:, None] - x, axis=-1)
    assert exact.covering_number(D, radius) == by_trying(D, radius)


def test_covering_number_where_the_greedy_choice_is_wrong():
    # The ball around 2 holds most, but the outer points then need one ball each.
    D = line(6)
    assert [exact.covering_number(D, r) for r in (0, 1, 2, 2.5, 3, 5)] == [6, 2, 2, 2, 1, 1]
    assert [exact.covering_number(line(9), r) for r in (1, 2)] == [3, 2]


def test_states_at_distance_zero_count_once():
    D = np.kron(line(4), np.ones((3, 3)))
    assert exact.covering_number(D, 0) == 4
    assert exact.effective_dimension(D) == pytest.approx(exact.effective_dimension(line(4)))
    assert exact.doubling_dimension(D) == exact.doubling_dimension(line(4))


def test_a_square_has_more_dimensions_than_a_line():
    assert exact.effective_dimension(line(36)) == pytest.approx(1, abs=0.25)
    assert exact.effective_dimension(square(6)) == pytest.approx(1.75, abs=0.5)
    assert exact.doubling_dimension(line(36)) == pytest.approx(np.log2(3))
    assert np.log2(4) <= exact.doubling_dimension(square(6)) <= np.log2(9)


def test_equidistant_states_have_the_largest_doubling_dimension():
    D = 1 - np.eye(8)
    assert exact.doubling_dimension(D) == 3
    assert exact.effective_dimension(D) > 6
    assert exact.doubling_dimension(np.zeros((3, 3))) == 0
    assert exact.effective_dimension(np.zeros((3, 3))) == 0


def test_dimensions_do_not_depend_on_scale_and_self_distances_do_not_count():
    x = np.random.default_rng(0).random((8, 3))
    D = np.linalg.norm(x[:, None] - x, axis=-1)
    for measure in (exact.effective_dimension, exact.doubling_dimension):
        assert measure(7 * D) == pytest.approx(measure(D))
        assert measure(D + 2) == pytest.approx(measure(D))
    found = exact.covering(D, [0.1, 0.5])
    np.testing.assert_array_equal(found.radius, [0.5, 0.1])
    np.testing.assert_array_equal(found.number, [exact.covering_number(D, r) for r in (0.5, 0.1)])


def test_wrong_input_is_named(monkeypatch):
    with pytest.raises(ShapeError, match=r"must be \[S, S\], got \[2, 3\]"):
        exact.covering_number(np.zeros((2, 3)), 1)
    with pytest.raises(ConfigError, match="radius must be at least 0, got -1"):
        exact.covering_number(line(3), -1)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(ImportError, match=r"pip install .*\[exact\]"):
        exact.covering_number(line(6), 0)
