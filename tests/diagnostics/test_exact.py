"""Distances against exact metrics of finite MDPs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pamd import diagnostics, exact
from pamd.diagnostics.exact import _embed, _relative_residual
from pamd.diagnostics.matching import match
from pamd.errors import ConfigError, MDPError, UnknownNameError
from pamd.report.diagnostics import draw

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
