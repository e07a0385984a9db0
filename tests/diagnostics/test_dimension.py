"""The dimension that a distance needs for a given distortion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pamd import diagnostics, exact
from pamd.diagnostics.dimension import _least_distortions
from pamd.diagnostics.exact import quotient, space_of
from pamd.diagnostics.matching import match
from pamd.diagnostics.mdps import varied_mdps
from pamd.errors import ConfigError, UnknownNameError
from pamd.report.diagnostics import draw

SMALL = {
    "corridor": exact.grid_world("...G"),
    "garnet": exact.garnet(4, rng=np.random.default_rng(0)),
}
FIT: dict[str, Any] = {"seeds": 4, "steps": 150, "learning_rate": 5e-2}


def test_points_of_a_square_need_the_plane_and_those_of_a_line_do_not() -> None:
    points = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    square = quotient(np.linalg.norm(points[:, None] - points, axis=-1))
    x = np.array([0.0, 1, 3])
    line = quotient(np.abs(x[:, None] - x))  # fewer states: both are trained at once
    one, two = (_least_distortions([square, line], match("l2", d), d, within=1.05, **FIT) for d in (1, 2))
    assert (two <= 1.05).all()
    assert one[1] <= 1.05
    assert one[0] > 1.5


@pytest.mark.parametrize("name", ["l2", "coordinate", "diagonal", "mlp"])
def test_spaces_and_heads_are_trained_apart(name: str) -> None:
    D = quotient(exact.mico(SMALL["garnet"], exact.uniform_policy(SMALL["garnet"])))
    fit = {**FIT, "seeds": 1, "steps": 30, "within": 1.0}
    alone = _least_distortions([D], match(name, 2), 2, **fit)
    together = _least_distortions([D, quotient(D**2)], match(name, 2), 2, **fit)
    np.testing.assert_allclose(together[0], alone[0], rtol=1e-4)
    assert together[1] != together[0]


def test_states_at_distance_zero_are_one_point() -> None:
    D = exact.mico(SMALL["garnet"], exact.uniform_policy(SMALL["garnet"]))
    twice = quotient(np.tile(D, (2, 2)))
    np.testing.assert_allclose(twice, quotient(D))
    space = space_of("garnet", "mico", twice)
    assert space.states == 4
    assert space.covering_number[0] == 1
    assert space.effective_dimension == pytest.approx(exact.effective_dimension(D))


def test_fits_are_kept_and_drawn(tmp_path: Path) -> None:
    options: dict[str, Any] = {"metrics": ["mico"], "dimensions": [1, 3], "steps": 30, "out": tmp_path}
    first = diagnostics.dimension(SMALL, distances=["l2"], **options)
    whole = diagnostics.dimension(SMALL, distances=["l2", "mico"], **options)
    assert set(first.cells) < set(whole.cells)
    assert {cell.dimension for cell in whole.cells} <= {1, 3, None}
    assert all((cell.dimension is None) == (cell.distortion > 2) for cell in whole.cells)
    some = diagnostics.dimension(SMALL, distances=["l2", "pamd"], interrupted=True, **options)
    assert set(some.cells) == set(first.cells)
    assert whole.rank_correlation.keys() == {"l2", "mico"}
    diagnostics.save(whole, tmp_path)
    section = draw(tmp_path)
    assert "doubling dimension" in section.text()
    assert (tmp_path / "dimension.png").stat().st_size > 5000
    assert len((tmp_path / "dimension.csv").read_text().splitlines()) == 1 + len(whole.cells)


def test_the_figure_has_more_than_twenty_mdps_that_differ() -> None:
    mdps = varied_mdps()
    assert len(mdps) > 20
    seen = {(mdp.under(exact.uniform_policy(mdp))[0].round(9).tobytes(), mdp.gamma) for mdp in mdps.values()}
    assert len(seen) == len(mdps)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="within must be finite and at least 1"):
        diagnostics.dimension(SMALL, within=0.5)
    with pytest.raises(UnknownNameError, match="Did you mean 'pamd'"):
        diagnostics.dimension(SMALL, distances=["pamdd"])
    with pytest.raises(ConfigError, match="nothing to embed"):
        quotient(np.ones((3, 3)))


def test_dimensions_in_which_a_distance_has_no_form_are_passed_over() -> None:
    found = diagnostics.dimension(
        {"garnet": SMALL["garnet"]}, metrics=["mico"], distances=["pamd-lowrank"], dimensions=[1, 4], steps=2
    )
    assert [cell.dimension for cell in found.cells] in ([4], [None])
    assert np.isfinite(found.cells[0].distortion)
