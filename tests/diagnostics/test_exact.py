"""Distances against exact metrics of finite MDPs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pamd import diagnostics, exact
from pamd.diagnostics.exact import _embed, _relative_residual, violations
from pamd.diagnostics.matching import match
from pamd.errors import ConfigError, MDPError, UnknownNameError
from pamd.report.diagnostics import draw
from pamd.report.diagnostics.heads import _GAP, _spread

SMALL = {"line": exact.garnet(6, rng=np.random.default_rng(0))}


def test_a_trained_table_embeds_points_of_a_line_and_a_random_one_does_not() -> None:
    x = np.linspace(0, 3, 7)
    D = np.abs(x[:, None] - x)
    pairs = np.stack(np.triu_indices(7, 1), axis=1)
    upper = np.triu_indices(7, 1)
    found = {
        trainable: _embed(D, match("l2", 2), 2, trainable=trainable, seed=0, pairs=pairs, steps=800, learning_rate=2e-2)
        for trainable in (True, False)
    }
    assert _relative_residual(found[True][upper], D[upper]) < 0.01
    assert _relative_residual(found[False][upper], D[upper]) > 0.1


def test_exact_goes_on_and_draws(tmp_path: Path) -> None:
    options = {"metrics": ["mico"], "dimensions": [2, 3], "steps": 5, "out": tmp_path}
    first = diagnostics.exact(SMALL, distances=["l2"], seeds=1, **options)  # type: ignore[arg-type]
    whole = diagnostics.exact(SMALL, distances=["l2", "mlp"], seeds=2, **options)  # type: ignore[arg-type]
    assert len(whole.cells) == 2 * 2 * 2 * 2
    assert set(first.cells) < set(whole.cells)
    partial = diagnostics.exact(SMALL, distances=["l2", "pamd"], seeds=1, interrupted=True, **options)  # type: ignore[arg-type]
    assert {cell.distance for cell in partial.cells} == {"l2"}
    diagnostics.save(whole, tmp_path)
    section = draw(tmp_path)
    assert "mlp" in section.text()
    assert (tmp_path / "held_out.png").stat().st_size > 5000


def test_what_cannot_be_embedded_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'pamd'"):
        diagnostics.exact(SMALL, distances=["pamdd"])
    with pytest.raises(UnknownNameError, match="exact metric"):
        diagnostics.exact(SMALL, metrics=["mic"])
    alike = exact.FiniteMDP(np.full((4, 1, 4), 0.25), np.ones((4, 1)))
    with pytest.raises(ConfigError, match="nothing to embed"):
        diagnostics.exact({"alike": alike}, metrics=["mico"])
    with pytest.raises(MDPError):
        exact.FiniteMDP(np.full((4, 1, 4), 0.5), np.ones((4, 1)))


def test_violations_are_those_of_a_loop_over_triples() -> None:
    rng = np.random.default_rng(0)
    d = rng.uniform(0.1, 1, (6, 6)) ** 2
    d = (d + d.T) / 2
    triples = [(x, y, z) for x in range(6) for y in range(6) for z in range(6) if len({x, y, z}) == 3]
    broken = [d[x, z] > d[x, y] + d[y, z] for x, y, z in triples]
    assert 0 < violations(d) == pytest.approx(np.mean(broken))
    points = rng.normal(size=(6, 2))
    assert violations(np.linalg.norm(points[:, None] - points, axis=-1)) == 0
    assert violations(d[:2, :2]) == 0


def test_many_metrics_are_drawn_as_medians(tmp_path: Path) -> None:
    options = {"metrics": ["policy-bisimulation"], "dimensions": [2, 3], "steps": 2, "seeds": 1}
    result = diagnostics.exact(suite="varied", distances=["l2", "pamd", "iqe"], **options)  # type: ignore[arg-type]
    assert len({cell.mdp for cell in result.cells}) == 22
    assert all(cell.violations == 0 for cell in result.cells if cell.distance != "pamd")
    diagnostics.save(result, tmp_path)
    section = draw(tmp_path)
    assert [figure.file for figure in section.figures] == ["distortion"]
    assert (tmp_path / "distortion.png").stat().st_size > 20_000
    assert "triangle violations" in section.text()


def test_names_are_moved_apart_and_no_further() -> None:
    spread = _spread([0.1, 0.1, 0.11, 0.9])
    assert np.diff(spread).min() == pytest.approx(_GAP)
    assert np.mean(spread[:3]) == pytest.approx(0.31 / 3, abs=1e-3)
    assert spread[3] == 0.9
