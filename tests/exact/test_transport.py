"""Exact optimal transport compared with a linear program, a closed form and simple cases."""

import sys

import numpy as np
import pytest
from scipy.optimize import linprog

from pamd.errors import MDPError, ShapeError
from pamd.exact import wasserstein


def linear_program(p, q, cost):
    """min <coupling, cost> with marginals p and q, written out."""
    S, T = cost.shape
    marginals = np.vstack([np.kron(np.eye(S), np.ones(T)), np.kron(np.ones(S), np.eye(T))])
    solved = linprog(cost.ravel(), A_eq=marginals, b_eq=np.concatenate([p, q]), bounds=(0, None))
    assert solved.success
    return solved.fun


def distribution(rng, size, support):
    p = np.zeros(size)
    p[rng.choice(size, support, replace=False)] = rng.dirichlet(np.ones(support))
    return p


@pytest.mark.parametrize("seed", range(12))
def test_equals_the_linear_program(seed):
    # Not square, not symmetric, and with impossible states on both sides.
    rng = np.random.default_rng(seed)
    p, q = distribution(rng, 6, 4), distribution(rng, 5, 3)
    cost = rng.random((6, 5))
    assert wasserstein(p, q, cost) == pytest.approx(linear_program(p, q, cost), abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_equals_the_area_between_cumulative_distributions_on_a_line(seed):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(7)), rng.dirichlet(np.ones(7))
    line = np.arange(7.0)
    assert wasserstein(p, q, np.abs(line[:, None] - line)) == pytest.approx(np.abs(np.cumsum(p - q)).sum(), abs=1e-9)


def test_mass_that_may_stay_does():
    half, metric = np.array([0.5, 0.5, 0]), 1 - np.eye(3)
    assert wasserstein(half, half, metric) == pytest.approx(0)
    assert wasserstein(half, np.array([0, 0.5, 0.5]), metric) == pytest.approx(0.5)


def test_cost_of_an_impossible_state_plays_no_part():
    p, q = np.array([0.5, 0.5, 0]), np.array([0.25, 0.75, 0])
    cost = 1 - np.eye(3)
    free = cost.copy()
    free[2], free[:, 2] = -100, -100
    assert wasserstein(p, q, free) == wasserstein(p, q, cost) == pytest.approx(0.25)


@pytest.mark.parametrize("flip", [False, True])
def test_a_point_mass_has_one_coupling_and_needs_no_solver(flip, monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)  # POT is not installed
    p, q = np.array([0, 1.0, 0]), np.array([0.25, 0.75])
    cost = np.array([[9.0, 9], [4, 8], [9, 9]])
    result = wasserstein(q, p, cost.T) if flip else wasserstein(p, q, cost)
    assert result == pytest.approx(0.25 * 4 + 0.75 * 8)
    assert result == pytest.approx(linear_program(p, q, cost))


def test_missing_solver_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(ImportError, match=r"pip install .*\[exact\]"):
        wasserstein(np.array([0.5, 0.5]), np.array([0.5, 0.5]), np.ones((2, 2)))


def test_cost_of_the_wrong_shape():
    with pytest.raises(ShapeError, match=r"cost must be \[2, 3\], got \[3, 2\]"):
        wasserstein(np.ones(2) / 2, np.ones(3) / 3, np.ones((3, 2)))


@pytest.mark.parametrize("bad", [[0.3, 0.3], [0.0, 0.0], [1.5, -0.5], [float("nan"), 1.0]])
def test_only_distributions_can_be_moved(bad):
    for p, q in ((bad, [1.0, 0.0]), ([1.0, 0.0], bad)):
        with pytest.raises(MDPError, match="sum to one"):
            wasserstein(np.array(p), np.array(q), np.ones((2, 2)))
